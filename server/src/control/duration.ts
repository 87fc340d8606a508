import { DAY, type Duration, HOUR, MINUTE, SECOND } from '../model/time.ts';

const UNITS: readonly [name: string, length: Duration][] = [
  ['d', DAY],
  ['h', HOUR],
  ['m', MINUTE],
  ['s', SECOND],
  ['ms', 1],
];

/** As the configuration file writes it, in the largest unit that says it exactly: `7d`, `90m`, `250ms`. */
export function durationText(duration: Duration): string {
  const [name, length] = UNITS.find(([, length]) => duration % length === 0) ?? ['ms', 1];
  return `${duration / length}${name}`;
}
