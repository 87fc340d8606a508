/** Numbers, times and sizes as the console writes them: short, with the exact value for the tooltip. */

const SPACE = '\u202f';
const STEPS = [
  { from: 1e12, unit: 'T' },
  { from: 1e9, unit: 'G' },
  { from: 1e6, unit: 'M' },
  { from: 1e4, unit: 'k' },
] as const;

/** 9,812 stays as it is; 12,431 becomes 12.4 k. */
export function shortNumber(value: number): string {
  const step = STEPS.find(({ from }) => Math.abs(value) >= from);
  if (step === undefined) return exactNumber(value);
  const divisor = step.unit === 'k' ? 1e3 : step.from;
  return `${significant(value / divisor)}${SPACE}${step.unit}`;
}

export function exactNumber(value: number): string {
  return value.toLocaleString('en-US', { maximumFractionDigits: 3 });
}

/** Three digits that count: 0.31, 8.41, 18.4, 312. */
function significant(value: number): string {
  const digits = Math.abs(value) >= 100 ? 0 : Math.abs(value) >= 10 ? 1 : 2;
  return value.toFixed(digits);
}

/** Events a second. Slow rates keep their digits: 0.03/s is not 0. */
export function rate(perSecond: number): string {
  if (perSecond === 0) return '0/s';
  if (perSecond >= 1e4) return `${shortNumber(perSecond)}/s`;
  if (perSecond >= 10) return `${exactNumber(Math.round(perSecond))}/s`;
  return `${Number(perSecond.toPrecision(2))}/s`;
}

/** A length of time, two units at most: 840 µs, 12 ms, 5.0 s, 38 s, 14 min, 2 h 58 min, 12 d. */
export function duration(milliseconds: number): string {
  const ms = Math.max(0, milliseconds);
  if (ms === 0) return `0${SPACE}s`;
  if (ms < 1) return `${Math.round(ms * 1000)}${SPACE}µs`;
  if (ms < 10) return `${ms.toFixed(1)}${SPACE}ms`;
  if (ms < 1000) return `${Math.round(ms)}${SPACE}ms`;
  if (ms < 10_000) return `${(ms / 1000).toFixed(1)}${SPACE}s`;
  const seconds = Math.round(ms / 1000);
  if (seconds < 90) return `${seconds}${SPACE}s`;
  const minutes = Math.round(seconds / 60);
  if (minutes < 60) return `${minutes}${SPACE}min`;
  const hours = Math.floor(minutes / 60);
  const rest = minutes % 60;
  if (hours < 24) return `${hours}${SPACE}h${rest === 0 ? '' : ` ${rest}${SPACE}min`}`;
  return `${Math.floor(hours / 24)}${SPACE}d${hours % 24 === 0 ? '' : ` ${hours % 24}${SPACE}h`}`;
}

/** How long ago, or how far ahead, a time lies. */
export function relative(time: number, now: number): string {
  const difference = now - time;
  if (Math.abs(difference) < 1000) return 'now';
  const seconds = Math.trunc(Math.abs(difference) / 1000);
  const length = seconds < 10 ? `${seconds}${SPACE}s` : duration(seconds * 1000);
  return difference > 0 ? `${length} ago` : `in ${length}`;
}

export function bytes(count: number): string {
  if (count < 1000) return `${count}${SPACE}B`;
  const units = ['kB', 'MB', 'GB', 'TB'];
  const power = Math.min(Math.floor(Math.log10(count) / 3), units.length);
  return `${significant(count / 1000 ** power)}${SPACE}${units[power - 1]}`;
}

export type Zone = 'local' | 'utc';

const CLOCK = { hour: '2-digit', minute: '2-digit', second: '2-digit', hourCycle: 'h23' } as const;

/** 14:32:07.386 of a day that is known. */
export function clock(time: number, zone: Zone, { isShort = false } = {}): string {
  const parts = formatter(zone, isShort ? { hour: '2-digit', minute: '2-digit', hourCycle: 'h23' } : CLOCK);
  const text = parts.format(time);
  return isShort ? text : `${text}.${String((time % 1000) | 0).padStart(3, '0')}`;
}

/** Fri 20 Nov, 14:32:07.386; the year where it is not this one. */
export function dateTime(time: number, zone: Zone): string {
  return `${dayOf(time, zone)}, ${clock(time, zone)}${zone === 'utc' ? ' UTC' : ''}`;
}

/** 14:32:07.386 of today, and Fri 20 Nov, 14:32:07.386 of another day. `now` decides which day is today. */
export function clockOfDay(time: number, now: number, zone: Zone): string {
  return dayOf(time, zone) === dayOf(now, zone) ? clock(time, zone) : dateTime(time, zone);
}

/** Fri 20 Nov; the year where it is not this one. */
export function dayOf(time: number, zone: Zone): string {
  const isThisYear = new Date(time).getFullYear() === new Date().getFullYear();
  return formatter(zone, {
    weekday: 'short',
    day: 'numeric',
    month: 'short',
    ...(isThisYear ? {} : { year: 'numeric' }),
  }).format(time);
}

/** "13:32 – 14:32, Fri 20 Nov", with both days where they differ. */
export function rangeText(from: number, to: number, zone: Zone): string {
  const day = (time: number) => `${dayOf(time, zone)}${zone === 'utc' ? ' UTC' : ''}`;
  const at = (time: number) => clock(time, zone, { isShort: true });
  if (day(from) === day(to)) return `${at(from)} – ${at(to)}, ${day(to)}`;
  return `${day(from)}, ${at(from)} – ${day(to)}, ${at(to)}`;
}

const formatters = new Map<string, Intl.DateTimeFormat>();

/** Making a formatter costs a millisecond; a live list wants hundreds. */
function formatter(zone: Zone, options: Intl.DateTimeFormatOptions): Intl.DateTimeFormat {
  const key = zone + JSON.stringify(options);
  let found = formatters.get(key);
  if (found === undefined) {
    found = new Intl.DateTimeFormat('en-GB', { ...options, ...(zone === 'utc' ? { timeZone: 'UTC' } : {}) });
    formatters.set(key, found);
  }
  return found;
}

/** 1 destination, 2 destinations. */
export function plural(count: number, one: string, many = `${one}s`): string {
  return `${exactNumber(count)} ${count === 1 ? one : many}`;
}
