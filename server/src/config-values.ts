import ipaddr from 'ipaddr.js';
import * as z from 'zod';
import { DAY, type Duration, HOUR, MINUTE, SECOND } from './model/time.ts';

const DURATIONS: Readonly<Record<string, Duration>> = { ms: 1, s: SECOND, m: MINUTE, h: HOUR, d: DAY };
const SIZES: Readonly<Record<string, number>> = { B: 1, KB: 2 ** 10, MB: 2 ** 20, GB: 2 ** 30, TB: 2 ** 40 };

/** Inside a character class. Spelled as ranges, because the JSON Schema must work where `\p{Cc}` does not. */
export const CONTROL = '\\u0000-\\u001f\\u007f-\\u009f';

/** A text that one pattern describes, so that the JSON Schema says all of it. */
export function matching(pattern: RegExp, rule: string) {
  return z.string(rule).regex(pattern, rule);
}

/** `7d`, `250ms` → milliseconds; `10GB` → bytes. Seven digits keep the product exact. */
function amount(units: Readonly<Record<string, number>>, rule: string) {
  return matching(new RegExp(`^[1-9][0-9]{0,6}(${Object.keys(units).join('|')})$`), rule).transform(
    (written) => {
      const unit = written.replace(/^\d+/, '');
      return Number.parseInt(written, 10) * units[unit]!;
    },
  );
}

export const duration = () => amount(DURATIONS, 'must be a duration such as 250ms, 5s, 10m, 4h or 7d');

/** `example` is one that makes sense where the key stands. */
export const size = (example: string) => amount(SIZES, `must be a size such as ${example}`);

const PORT_RULE = 'must be a whole number from 0 to 65535';
export const port = () => z.int(PORT_RULE).min(0, PORT_RULE).max(65_535, PORT_RULE);

export const flag = () => z.boolean('must be true or false');

export const filePath = () =>
  matching(new RegExp(`^[^${CONTROL}]+$`), 'must be text: the path of a file or folder');

const RANGE_RULE = 'must be an address range such as 10.20.0.0/16, 192.0.2.7/32 or fd00::/8';
const addressRange = z
  .string(RANGE_RULE)
  .superRefine((written, context) => {
    if (!isAddressRange(written))
      context.addIssue({ code: 'custom', message: RANGE_RULE, params: { found: true } });
  })
  .meta({ pattern: '^[0-9A-Fa-f.:]+/[0-9]{1,3}$' });

/** Stricter than the library alone, which also takes octal and shortened IPv4 addresses and IPv6 zones. */
function isAddressRange(written: string): boolean {
  const [address = '', bits = '', ...rest] = written.split('/');
  if (rest.length > 0 || !/^\d{1,3}$/.test(bits)) return false;
  if (ipaddr.IPv4.isValidFourPartDecimal(address)) return Number(bits) <= 32;
  return /^[0-9A-Fa-f.:]+$/.test(address) && ipaddr.IPv6.isValid(address) && Number(bits) <= 128;
}

export const addressRanges = () => z.array(addressRange, 'must be a list of address ranges').default([]);
