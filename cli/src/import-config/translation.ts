import type { MissingValue } from '@millrace/server/config';
import { Variables } from './names.ts';
import { type Outcome, type Question, type ReportLine, reasonOf } from './report.ts';
import type { ExportedThing } from './workspace.ts';

/** A record as it is written into the file. */
export type WrittenRecord = { readonly name: string; readonly [key: string]: Json };

/** The lists of a configuration file that an import fills. */
export type ListName = 'sources' | 'destinations' | 'audiences' | 'traits';

type Json = null | boolean | number | string | readonly Json[] | { readonly [key: string]: Json };

/** Longest text of one thing that is kept as a comment. */
const MAX_KEPT = 64 * 1024;

/** The report and the comments of the file, while records are made. */
export class Translation {
  readonly things: ReportLine[] = [];
  readonly asked: Question[] = [];
  /** Records in an order in which each stands behind all that it names. */
  readonly records: { readonly list: ListName; readonly record: WrittenRecord }[] = [];
  /** Comments in front of records, and behind the last one. */
  readonly before = new Map<string, readonly string[]>();
  readonly end: string[] = [];
  /** Variables that records read, or would. */
  readonly variables: string[] = [];
  readonly #names = new Variables();
  readonly #env: Readonly<Record<string, string | undefined>>;

  constructor(env: Readonly<Record<string, string | undefined>>) {
    this.#env = env;
  }

  /** Says what became of a thing. */
  tell(
    kind: string,
    { id, name }: Pick<ExportedThing, 'id' | 'name'>,
    outcome: Outcome,
    { reasons = [], as }: { readonly reasons?: readonly string[]; readonly as?: string } = {},
  ): void {
    this.things.push({
      kind,
      id,
      ...(name === undefined ? {} : { name }),
      outcome,
      ...reasonOf(reasons),
      ...(as === undefined ? {} : { as }),
    });
  }

  /** Asks for a value that the export does not have. `isAnswered`: the environment has it already. */
  ask(name: string, what: string, text: string): { value: MissingValue; isAnswered: boolean } {
    const variable = this.#names.give(name, what);
    this.variables.push(variable);
    const isAnswered = (this.#env[variable] ?? '') !== '';
    if (!isAnswered) this.asked.push({ variable, text });
    return { value: { set: true, variable }, isAnswered };
  }
}

/** The text of a thing, as the lines of a comment. */
export function keptText(title: string, raw: unknown): string[] {
  const text = typeof raw === 'string' ? raw : (JSON.stringify(raw, undefined, 2) ?? '');
  const kept =
    text.length > MAX_KEPT ? `${text.slice(0, MAX_KEPT)}\n… (cut: the export has all of it)` : text;
  return [`${title}:`, ...kept.split(/\r\n|[\n\r]/).map((line) => `  ${line}`)];
}
