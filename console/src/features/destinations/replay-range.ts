const HOUR = 3_600_000;

/** A range of time as the two fields of a browser's form hold it, in the local zone: `2026-11-22T14:00`. */
export interface LocalRange {
  readonly from: string;
  readonly to: string;
}

/** The last whole hour until now. */
export function lastHour(now: number): LocalRange {
  return { from: toLocalField(now - HOUR), to: toLocalField(now) };
}

/** A time as `<input type="datetime-local">` wants it, to the minute. */
export function toLocalField(time: number): string {
  const date = new Date(time - new Date(time).getTimezoneOffset() * 60_000);
  return date.toISOString().slice(0, 16);
}

/** The instants of a range, ISO 8601; a reason where it is none. The minute of `to` counts whole. */
export function instantsOf({
  from,
  to,
}: LocalRange): { readonly from: string; readonly to: string } | string {
  const [start, end] = [new Date(from).getTime(), new Date(to).getTime()];
  if (Number.isNaN(start) || Number.isNaN(end)) return 'Choose when it begins and ends.';
  if (start > end) return 'It ends before it begins.';
  return { from: new Date(start).toISOString(), to: new Date(end + 60_000).toISOString() };
}
