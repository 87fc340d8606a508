/** The values of a form, by field. */
export type Fields = object;

/** Tells whether two values of a field are the same. */
export function isSame(one: unknown, other: unknown): boolean {
  return JSON.stringify(one) === JSON.stringify(other);
}

type FieldName<Draft> = keyof Draft & string;

/** The names of the fields in which two drafts differ. */
export function changedFields<Draft extends Fields>(from: Draft, to: Draft): FieldName<Draft>[] {
  return (Object.keys(to) as FieldName<Draft>[]).filter((name) => !isSame(from[name], to[name]));
}

/** A form, the record from which it was filled, and the record as others have left it since. */
export interface Versions<Draft extends Fields> {
  readonly base: Draft;
  readonly mine: Draft;
  readonly theirs: Draft;
}

export interface MergedFields<Draft extends Fields> {
  /** The record as others have left it, with my changes on top. */
  readonly draft: Draft;
  /** Fields that others changed to something else than the form has. */
  readonly news: readonly FieldName<Draft>[];
  /** Fields among `news` that I changed too; the draft keeps my values. */
  readonly disputed: readonly FieldName<Draft>[];
}

/** Merges field by field: a field that only one side changed gets that side's value. */
export function mergeFields<Draft extends Fields>({
  base,
  mine,
  theirs,
}: Versions<Draft>): MergedFields<Draft> {
  const changed = changedFields(base, mine);
  const kept = Object.fromEntries(changed.map((name) => [name, mine[name]]));
  const news = changedFields(base, theirs).filter((name) => !isSame(mine[name], theirs[name]));
  return {
    draft: { ...theirs, ...kept },
    news,
    disputed: news.filter((name) => changed.includes(name)),
  };
}

/**
 * The number in a text; null for an empty one. Other texts stay texts: the server says what is wrong with
 * them.
 */
export function numberOf(text: string): number | string | null {
  const trimmed = text.trim();
  if (trimmed === '') return null;
  return Number.isFinite(Number(trimmed)) ? Number(trimmed) : trimmed;
}
