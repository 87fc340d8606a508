import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { DAY, HOUR, MINUTE, SECOND } from '../../src/model/time.ts';

const ROOT = join(import.meta.dirname, '../../..');
const SOURCES = join(ROOT, 'server/src');
const PAGE = readFileSync(join(ROOT, 'docs/reference/bounds.md'), 'utf8');

interface Bound {
  readonly what: string;
  /** As the page has it. */
  readonly figure: string;
  readonly file: string;
  readonly name: string;
}

const BOUNDS = PAGE.split('\n').flatMap((line): Bound[] => {
  const cells = line.split('|').map((cell) => cell.trim());
  const [, file, name] = /^`([^`]+\.ts)` `([^`]+)`$/.exec(cells[5] ?? '') ?? [];
  if (file === undefined || name === undefined) return [];
  return [{ what: cells[1]!, figure: cells[3]!, file, name }];
});

const UNITS: Readonly<Record<string, number>> = { KB: 2 ** 10, MB: 2 ** 20, h: HOUR, d: DAY };

/** `64 MB (…)` → 67108864. */
function amountIn(figure: string): number {
  const [, digits, unit] = /^([\d,.]+)(?: ([A-Za-z]+))?(?: \(|$)/.exec(figure) ?? [];
  return Number(digits?.replaceAll(',', '')) * (unit === undefined ? 1 : (UNITS[unit] ?? Number.NaN));
}

/** Value of a constant or a field in the code: a product or a power of numbers and of the names of times. */
function valueInCode({ file, name }: Pick<Bound, 'file' | 'name'>): number {
  const text = readFileSync(join(SOURCES, file), 'utf8');
  const [, written] =
    new RegExp(`\\b${name}(?:: \\w+)?(?: =|:) ([\\dA-Z_ *.]+?)[;,\\s]*(?:\\n|,| \\})`).exec(text) ?? [];
  const times: Readonly<Record<string, number>> = { SECOND, MINUTE, HOUR, DAY };
  const powers = (written ?? '').split('**').map((part) => part.trim());
  const product = (factors: string) =>
    factors
      .split('*')
      .reduce((value, one) => value * (times[one.trim()] ?? Number(one.trim().replaceAll('_', ''))), 1);
  if (powers.length === 1) return product(powers[0]!);
  const [left, exponent] = powers as [string, string];
  const factors = left.split('*');
  const base = product(factors.pop()!);
  return (factors.length === 0 ? 1 : product(factors.join('*'))) * base ** product(exponent);
}

describe('the table of bounds', () => {
  it('has many lines', () => {
    expect(BOUNDS.length).toBeGreaterThan(50);
    expect(new Set(BOUNDS.map(({ file, name }) => `${file} ${name}`)).size).toBe(BOUNDS.length);
  });

  it.each(BOUNDS)('has the figure of the code: $what', (bound) => {
    expect(amountIn(bound.figure)).toBe(valueInCode(bound));
  });

  it('or the one of collections that grow with nothing names every file that has a collection', () => {
    const files = readdirSync(SOURCES, { recursive: true, encoding: 'utf8' }).filter(
      (name) => name.endsWith('.ts') && !name.endsWith('.test.ts'),
    );
    const holders = files.filter((name) => COLLECTION.test(readFileSync(join(SOURCES, name), 'utf8')));
    const named = new Set(Array.from(PAGE.matchAll(/`([^`]+\.ts)`/g), ([, name]) => name));
    expect(holders.filter((name) => !named.has(name))).toEqual([]);
    expect([...named].filter((name) => !files.includes(name!))).toEqual([]);
    expect(holders.length).toBeGreaterThan(50);
  });
});

/** A field that holds entries for longer than a call. */
const COLLECTION =
  /^ +(?:readonly )?#\w+(?:: [^=\n]+)? = new (?:Map|Set|BoundedCache|Fifo|LinkedList|RecentPairs|Slab)[<(]/m;
