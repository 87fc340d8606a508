import { answered } from './answered.ts';
import { atMost, count, printable } from './column.ts';
import type { ControlFlags } from './control-api.ts';
import { type Paint, paintFor } from './paint.ts';
import type { ExitCode, RunContext } from './run-context.ts';
import { type Heading, table } from './table.ts';
import { ago, beginningOf, type TimeRange } from './time-range.ts';

export interface CompareOptions extends ControlFlags, TimeRange {
  /** The arguments of the verb. */
  readonly a: string;
  readonly b: string;
  /** Rules that are switched off, with commas between them. */
  readonly without?: string;
  readonly json?: boolean;
}

/** The answer of `GET /api/v1/compare`. */
export interface ShownComparison {
  readonly there: string;
  readonly here: string;
  readonly from: string;
  readonly to: string;
  readonly equal: number;
  readonly different: number;
  readonly missing: { readonly there: number; readonly here: number };
  readonly waiting: number;
  readonly apart: Readonly<Record<string, number>>;
  readonly unreadable: number;
  readonly differences: readonly {
    readonly event: string;
    readonly field: string;
    readonly count: number;
    readonly examples: readonly {
      readonly messageId: string;
      readonly there: unknown;
      readonly here: unknown;
    }[];
  }[];
  readonly absences: readonly {
    readonly event: string;
    readonly missing: 'there' | 'here';
    readonly count: number;
    readonly messageIds: readonly string[];
  }[];
  readonly truncated: boolean;
  readonly rules: readonly { readonly name: string; readonly on: boolean }[];
}

/**
 * `millrace compare A B`: compares what two sources have of the same calls. Ends with 1 where they differ.
 * spec/contract.md, "Verbs that ask".
 */
export async function compare(options: CompareOptions, context: RunContext): Promise<ExitCode> {
  const { a, b, to, without } = options;
  const reply = await answered(options, context, {
    method: 'GET',
    path: 'compare',
    query: { a, b, from: beginningOf(options) ?? ago('1d'), to, without },
  });
  if (typeof reply === 'number') return reply;
  const shown = reply.value as ShownComparison;
  const text = options.json
    ? `${reply.text}\n`
    : `${comparisonLines(shown, paintFor(context.out, context.env)).join('\n')}\n`;
  context.out.write(text);
  return shown.different + shown.missing.there + shown.missing.here === 0 ? 0 : 1;
}

const HEADINGS: readonly Heading[] = [
  { title: 'calls', align: 'right' },
  { title: 'event', align: 'left', most: 60, least: 12 },
  { title: 'differs in', align: 'left', most: 60, least: 12 },
  { title: 'there', align: 'left', most: 30, least: 6 },
  { title: 'here', align: 'left', most: 30, least: 6 },
  { title: 'such as', align: 'left' },
];

/** Formats a comparison for a terminal. */
export function comparisonLines(shown: ShownComparison, paint: Paint): string[] {
  const { there, here, from, to, equal, different, missing, waiting, apart, unreadable } = shown;
  const off = shown.rules.filter(({ on }) => !on).map(({ name }) => name);
  const counts: [string, number][] = [
    ['equal', equal],
    ['different', different],
    [`missing in ${printable(there)}`, missing.there],
    [`missing in ${printable(here)}`, missing.here],
    ['may still come', waiting],
    ['of audiences and traits', apart['computed'] ?? 0],
    ['of suppressed users', apart['suppressed'] ?? 0],
    ['with additions of a tracking plan', apart['protocols'] ?? 0],
    ['damaged or erased', unreadable],
  ];
  const rows = [
    ...shown.differences.map(({ event, field, count: calls, examples: [example] }) => [
      { text: count(calls) },
      { text: event },
      { text: field },
      { text: valueText(example?.there) },
      { text: valueText(example?.here) },
      { text: example?.messageId ?? '' },
    ]),
    ...shown.absences.map(({ event, missing: side, count: calls, messageIds }) => [
      { text: count(calls) },
      { text: event },
      { text: `missing in ${side === 'there' ? there : here}` },
      { text: '' },
      { text: '' },
      { text: messageIds[0] ?? '' },
    ]),
  ];
  return [
    `${printable(there)} (there) and ${printable(here)} (here), ${from} to ${to}`,
    ...counts
      .filter(([, n], nth) => nth < 4 || n > 0)
      .map(([what, n]) => `  ${count(n).padStart(9)}  ${what}`),
    ...(off.length === 0 ? [] : [`  without the rules ${off.join(', ')}`]),
    ...(rows.length === 0 ? [] : ['', ...table(HEADINGS, rows, paint)]),
    ...(shown.truncated ? ['', 'There are more kinds than these; compare a shorter range.'] : []),
  ];
}

/** Characters of a value that are shown. */
const VALUE = 60;

function valueText(value: unknown): string {
  return value === undefined || value === null ? '' : atMost(JSON.stringify(value), VALUE);
}
