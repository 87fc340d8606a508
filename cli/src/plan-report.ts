import { atMost, count, printable } from './column.ts';
import type { Paint } from './paint.ts';
import { type Difference, differencesOf, isMask } from './record-difference.ts';

/** The answer of `PUT /api/v1/config`. */
export interface Plan {
  readonly applied: boolean;
  readonly changes: readonly {
    readonly action: 'created' | 'changed' | 'removed';
    readonly kind: string;
    readonly name: string;
    readonly before?: object;
    readonly after?: object;
  }[];
  /** Records that are absent from the file and stay as they are, such as `source website`. */
  readonly kept: readonly string[];
  /** Destinations that the change cuts off while deliveries are still pending. */
  readonly disconnects: readonly { readonly destination: string; readonly owed: number }[];
  /** Warnings, which do not prevent the change. Paths are those of the request body. */
  readonly warnings?: readonly { readonly path: string; readonly message: string }[];
}

type Change = Plan['changes'][number];

/** Columns of a value. Longer ones are cut: the change itself matters more. */
const VALUE = 100;

const SIGNS = { created: '+', changed: '~', removed: '-' };

/**
 * The changes of a file, planned or applied.
 *
 * ```
 * ~ destination crm
 *     settings.endpoints[0].url: "https://a.example/" → "https://b.example/"
 *     settings.sharedSecret: a secret ending in 3cr7 → a secret ending in 9xz2
 * - source old
 *
 * Would change: 1 changed, 1 removed. Not in the file, and kept: source app.
 * ```
 */
export function planReport(plan: Plan, paint: Paint): string {
  const { changes, disconnects } = plan;
  const draw = { created: paint.green, changed: paint.yellow, removed: paint.red };
  const lines = changes.flatMap((change) => [
    draw[change.action](`${SIGNS[change.action]} ${change.kind} ${printable(change.name)}`),
    ...fieldsOf(change).map((line) => `    ${line}`),
  ]);
  const warnings = disconnects.map(({ destination, owed }) =>
    paint.red(
      `Destination ${printable(destination)} is still owed ${count(owed)} ${owed === 1 ? 'delivery' : 'deliveries'}, and this disconnects it.`,
    ),
  );
  return `${[...lines, ...(lines.length > 0 ? [''] : []), ...warnings, sumOf(plan)].join('\n')}\n`;
}

/** The last line of the report. */
export function sumOf({ changes, kept, applied }: Plan): string {
  const sums = (['created', 'changed', 'removed'] as const).flatMap((action) => {
    const n = changes.filter((change) => change.action === action).length;
    return n === 0 ? [] : [`${count(n)} ${action}`];
  });
  const what =
    sums.length === 0 ? 'Nothing to change' : `${applied ? 'Done' : 'Would be'}: ${sums.join(', ')}`;
  const rest = kept.length === 0 ? '' : ` Not in the file, and kept: ${kept.map(printable).join(', ')}.`;
  return `${what}.${rest}`;
}

function fieldsOf({ action, before, after }: Change): string[] {
  if (action === 'removed') return [];
  const differences = differencesOf(before, after);
  // A secret shows its last characters only, and a short one none.
  if (differences.length === 0) return ['a secret, by another one that looks the same from outside'];
  return differences
    .filter(({ path }) => action === 'changed' || path !== 'name')
    .map(
      ({ path, ...values }) =>
        `${printable(path)}: ${action === 'created' ? text(values.after) : arrow(values)}`,
    );
}

function arrow({ before, after }: Pick<Difference, 'before' | 'after'>): string {
  return `${text(before)} → ${text(after)}`;
}

function text(value: unknown): string {
  if (value === undefined) return 'not set';
  return atMost(whole(value), VALUE);
}

function whole(value: unknown): string {
  if (isMask(value)) return value.hint === undefined ? 'a secret' : `a secret ending in ${value.hint}`;
  if (Array.isArray(value)) return `[${value.map(whole).join(', ')}]`;
  return JSON.stringify(value) ?? 'not set';
}
