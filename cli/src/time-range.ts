import { type Command, InvalidArgumentError, Option } from 'commander';

/** A requested time range. The server parses both ends. */
export interface TimeRange {
  readonly from?: string;
  /** Begin of the range, from `--since`. */
  readonly since?: string;
  readonly to?: string;
}

const UNITS: Readonly<Record<string, number>> = { s: 1000, m: 60_000, h: 3_600_000, d: 86_400_000 };

/** Adds `--from`, `--since` and `--to`. A verb has all of them or none. */
export function addTimeRange(
  command: Command,
  says: { readonly from: string; readonly to: string },
): Command {
  return command
    .option('--from <time>', says.from)
    .addOption(
      new Option('--since <duration>', 'the same, so long ago: 90s, 10m, 1h, 7d')
        .argParser(ago)
        .conflicts('from'),
    )
    .option('--to <time>', says.to);
}

/** Beginning of a range, from `--from` or `--since`. */
export function beginningOf({ from, since }: TimeRange): string | undefined {
  return from ?? since;
}

/** Converts `1h` into the time an hour ago, in ISO 8601. */
export function ago(text: string): string {
  return timeAt(text, -1);
}

/** Converts `90d` into the time in ninety days, in ISO 8601. */
export function ahead(text: string): string {
  return timeAt(text, 1);
}

function timeAt(text: string, direction: 1 | -1): string {
  const match = /^(\d{1,9})(s|m|h|d)$/.exec(text);
  const ms = match === null ? Number.NaN : Number(match[1]) * (UNITS[match[2]!] ?? Number.NaN);
  const at = new Date(Date.now() + direction * ms);
  if (Number.isNaN(at.getTime()) || at.getTime() < 0) {
    throw new InvalidArgumentError('It is a number with its unit, such as 90s, 10m, 1h or 7d.');
  }
  return at.toISOString();
}
