import * as z from 'zod';
import { DAY, type Duration, HOUR, MINUTE, SECOND } from '../model/time.ts';

/**
 * Control characters, for a character class. Ranges, because the JSON Schema must work where `\p{Cc}` does
 * not.
 */
export const CONTROL = '\\u0000-\\u001f\\u007f-\\u009f';

/** A text that one pattern describes, so that the JSON Schema says all of it. */
export function textMatching(pattern: RegExp, rule: string) {
  return z.string(rule).regex(pattern, rule);
}

export const flag = () => z.boolean('must be true or false');

const NAME_RULE =
  'must be text of 1 to 100 characters, without control characters, not starting or ending with a space';
const NAME = new RegExp(`^[^\\s${CONTROL}]([^${CONTROL}]{0,98}[^\\s${CONTROL}])?$`, 'u');

/** The name of a record. */
export const recordName = () =>
  textMatching(NAME, NAME_RULE)
    .refine((value) => !/^\.{1,2}$/.test(value), {
      error: 'must not be . or .., which mean another folder in the path of a request',
    })
    // The store would replace half a surrogate pair, and the record could not be found by its name.
    .refine((value) => value.isWellFormed(), { error: 'must be whole Unicode characters' });

const LONG_NAME_RULE =
  'must be text of 1 to 255 characters, without control characters, not starting or ending with a space';
const LONG_NAME = new RegExp(`^[^\\s${CONTROL}]([^${CONTROL}]{0,253}[^\\s${CONTROL}])?$`, 'u');

/** A name that another program gave, which may be longer than those of records. */
export const longName = () =>
  textMatching(LONG_NAME, LONG_NAME_RULE).refine((value) => value.isWellFormed(), {
    error: 'must be whole Unicode characters',
  });

const DURATIONS: Readonly<Record<string, Duration>> = { ms: 1, s: SECOND, m: MINUTE, h: HOUR, d: DAY };
const SIZES: Readonly<Record<string, number>> = { B: 1, KB: 2 ** 10, MB: 2 ** 20, GB: 2 ** 30, TB: 2 ** 40 };

/** `7d`, `250ms` → milliseconds; `10GB` → bytes. Seven digits keep the product exact. */
function amount(units: Readonly<Record<string, number>>, rule: string) {
  return textMatching(new RegExp(`^[1-9][0-9]{0,6}(${Object.keys(units).join('|')})$`), rule).transform(
    (written) => toAmount(written, units),
  );
}

function toAmount(written: string, units: Readonly<Record<string, number>>): number {
  return Number.parseInt(written, 10) * units[written.replace(/^\d+/, '')]!;
}

export const duration = () => amount(DURATIONS, 'must be a duration such as 250ms, 5s, 10m, 4h or 7d');

const PERIOD_RULE = 'must be a duration such as 12h, 90d or 1y, or off';

/** How long something stays: a duration, of which a year has 365 days, or `off`, which keeps it for ever. */
export const period = () => {
  const units = { ...DURATIONS, y: 365 * DAY };
  const written = `[1-9][0-9]{0,6}(${Object.keys(units).join('|')})`;
  return textMatching(new RegExp(`^(${written}|off)$`), PERIOD_RULE).transform((text): Duration | 'off' =>
    text === 'off' ? text : toAmount(text, units),
  );
};

/** `example`: a value that makes sense for the key. */
export const size = (example: string) => amount(SIZES, `must be a size such as ${example}`);
