/**
 * An exact decimal number with nine digits behind the point, as a whole number of billionths. Adding
 * floating-point numbers gives a different result in a different order; adding these does not. A bigint only
 * where a number could not be exact, so that equal values are also the same JavaScript value.
 */
export type Billionths = number | bigint;

const BILLION = 1_000_000_000;
/**
 * Below this a product with a billion is so exact that rounding it gives the decimal digits that JSON showed.
 */
const MOST_BY_PRODUCT = 1_000_000;
/** From here on JavaScript writes numbers with an exponent. */
const MOST = 1e21;

/**
 * Makes the decimal that the number looks like: 0.1 is one tenth. Undefined from 10^21 on. Digits behind the
 * ninth are rounded.
 */
export function toBillionths(value: number): Billionths | undefined {
  if (!(Math.abs(value) < MOST)) return undefined;
  if (Math.abs(value) < MOST_BY_PRODUCT) return Math.round(value * BILLION) || 0;
  if (Number.isInteger(value)) return normal(BigInt(value) * BigInt(BILLION));
  const [whole = '0', fraction = '0'] = String(Math.abs(value)).split('.');
  const parts = BigInt(whole) * BigInt(BILLION) + BigInt(Math.round(Number(`0.${fraction}`) * BILLION));
  return normal(value < 0 ? -parts : parts);
}

export function addBillionths(a: Billionths, b: Billionths): Billionths {
  if (typeof a === 'number' && typeof b === 'number') {
    const sum = a + b;
    if (Number.isSafeInteger(sum)) return sum;
  }
  return normal(BigInt(a) + BigInt(b));
}

/** The nearest floating-point number. */
export function fromBillionths(value: Billionths): number {
  if (typeof value === 'number') return value / BILLION;
  const digits = (value < 0n ? -value : value).toString().padStart(10, '0');
  const size = Number(`${digits.slice(0, -9)}.${digits.slice(-9)}`);
  return value < 0n ? -size : size;
}

function normal(value: bigint): Billionths {
  const number = Number(value);
  return Number.isSafeInteger(number) ? number : value;
}
