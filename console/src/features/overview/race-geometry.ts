/** The shapes of the race. Everything is drawn from rates; nothing is decoration. */

/** Events and deliveries a second. */
export interface RaceRates {
  readonly received: number;
  readonly accepted: number;
  readonly owed: number;
  readonly delivered: number;
  readonly discarded: number;
  readonly duplicates: number;
  readonly skipped: number;
  readonly retrying: number;
  readonly dead: number;
}

/** Size of the drawing; it is stretched to the width of the page. */
export const WIDTH = 1200;
export const HEIGHT = 128;

const STATIONS = ['received', 'accepted', 'owed', 'delivered'] as const;
/** Height of the middle of the channel at each station: it falls from one to the next. */
const LEVELS = [22, 33, 44, 55] as const;
/** Half the length of the slope between two stations. */
const SLOPE = 34;
const SECTION = WIDTH / STATIONS.length;

/** Width of a stream, on a logarithmic scale: one a minute is visible beside ten thousand a second. */
export function widthOf(rate: number): number {
  return 1.5 + 7 * Math.log10(1 + Math.max(0, rate));
}

interface Channel {
  /** The closed shape of the water, and of the bed around it. */
  readonly water: string;
  readonly bed: string;
  readonly edges: readonly [string, string];
  /** Lines along the stream, from its upper to its lower side. */
  readonly flows: readonly string[];
}

const FLOWS = [-0.36, -0.2, -0.05, 0.12, 0.26, 0.4];
/** Distance between the water and the edge of the bed. */
const BANK = 5;

export function channel(rates: RaceRates): Channel {
  const widths = STATIONS.map((station) => widthOf(rates[station]));
  const along = (part: number, more = 0): string => line(widths.map((width) => part * width + more));
  const top = along(-0.5);
  const bottom = along(0.5);
  return {
    water: closed(widths, 0),
    bed: closed(widths, BANK),
    edges: [top, bottom],
    flows: FLOWS.map((part) => along(part)),
  };
}

/** A line through all sections, `offsets` away from the middle of each. */
function line(offsets: readonly number[]): string {
  const heights = offsets.map((offset, index) => (LEVELS[index] ?? 0) + offset);
  const [first = 0, ...rest] = heights;
  let path = `M0,${round(first)}`;
  let before = first;
  for (const [index, height] of rest.entries()) {
    const border = SECTION * (index + 1);
    const [begin, end] = [border - SLOPE, border + SLOPE];
    path += ` H${begin} C${border},${round(before)} ${border},${round(height)} ${end},${round(height)}`;
    before = height;
  }
  return `${path} H${WIDTH}`;
}

function closed(widths: readonly number[], more: number): string {
  const top = line(widths.map((width) => -width / 2 - more));
  const bottom = reversed(widths.map((width) => width / 2 + more));
  return `${top} ${bottom} Z`;
}

/** The same line from right to left, to close a shape with. */
function reversed(offsets: readonly number[]): string {
  const heights = offsets.map((offset, index) => (LEVELS[index] ?? 0) + offset);
  let path = `L${WIDTH},${round(heights.at(-1) ?? 0)}`;
  for (let index = heights.length - 1; index > 0; index -= 1) {
    const [height = 0, next = 0] = [heights[index], heights[index - 1]];
    const border = SECTION * index;
    path += ` H${border + SLOPE} C${border},${round(height)} ${border},${round(next)} ${border - SLOPE},${round(next)}`;
  }
  return `${path} H0`;
}

/** An outlet of the channel. */
interface Outlet {
  readonly id: 'discarded' | 'duplicates' | 'skipped' | 'pending' | 'dead';
  readonly path: string;
  readonly width: number;
  readonly tone: 'mute' | 'warn' | 'bad';
}

export function outlets(rates: RaceRates): Outlet[] {
  const falls = (from: number, station: 0 | 1, at: number, width: number): string => {
    const half = widthOf(rates[STATIONS[station]]) / 2;
    const side = LEVELS[station] + half - width / 2;
    return `M${from},${round(side)} C${at},${round(side)} ${at},${round(side + 12)} ${at},${round(side + 40)} V124`;
  };
  const out = {
    discarded: widthOf(rates.discarded),
    duplicates: widthOf(rates.duplicates),
    skipped: widthOf(rates.skipped),
    pending: widthOf(rates.retrying),
    dead: widthOf(rates.dead),
  };
  const low = LEVELS[2] + widthOf(rates.owed) / 2 - 2;
  const back = `C712,${round(low)} 668,102 728,102 H786 C846,102 812,${round(low)} 880,${round(low)}`;
  return [
    {
      id: 'discarded',
      tone: toneOf('warn', rates.discarded),
      width: out.discarded,
      path: falls(12, 0, 92, out.discarded),
    },
    { id: 'duplicates', tone: 'mute', width: out.duplicates, path: falls(150, 0, 236, out.duplicates) },
    { id: 'skipped', tone: 'mute', width: out.skipped, path: falls(330, 1, 424, out.skipped) },
    {
      id: 'pending',
      tone: toneOf('warn', rates.retrying),
      width: out.pending,
      path: `M640,${round(low)} ${back}`,
    },
    {
      id: 'dead',
      tone: toneOf('bad', rates.dead),
      width: out.dead,
      path: 'M798,103 C832,103 842,110 842,126',
    },
  ];
}

/** Tone of an outlet: none while nothing goes through it. */
function toneOf(tone: 'warn' | 'bad', rate: number): Outlet['tone'] {
  return rate > 0 ? tone : 'mute';
}

/**
 * Seconds in which the pattern of the flow moves by its length: faster with the rate, within limits that are
 * easy on the eye.
 */
export function flowSeconds(rate: number): number {
  if (rate <= 0) return 0;
  return Math.min(24, Math.max(2.5, 20 / Math.log10(2 + rate)));
}

function round(value: number): number {
  return Math.round(value * 10) / 10;
}
