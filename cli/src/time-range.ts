import { type Command, InvalidArgumentError, Option } from 'commander';

/** A range of time as it was asked for; both ends are for the server to read. */
export interface TimeRange {
  readonly from?: string;
  /** When it begins, from `--since`. */
  readonly since?: string;
  readonly to?: string;
}

const UNITS: Readonly<Record<string, number>> = { s: 1000, m: 60_000, h: 3_600_000, d: 86_400_000 };

/** `--from`, `--since` and `--to`, which stand together wherever one of them does. */
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

/** When a range begins, whichever way it was said. */
export function beginningOf({ from, since }: TimeRange): string | undefined {
  return from ?? since;
}

/** `1h` as the time an hour ago, ISO 8601. */
function ago(text: string): string {
  const match = /^(\d{1,9})(s|m|h|d)$/.exec(text);
  const ms = match === null ? Number.NaN : Number(match[1]) * (UNITS[match[2]!] ?? Number.NaN);
  const at = new Date(Date.now() - ms);
  if (Number.isNaN(at.getTime()) || at.getTime() < 0) {
    throw new InvalidArgumentError('It is a number with its unit, such as 90s, 10m, 1h or 7d.');
  }
  return at.toISOString();
}
