/** A form as it is filled in: a value for each of its fields. */
export type Fields = object;

/** Whether two values of a field are the same. */
export function isSame(one: unknown, other: unknown): boolean {
  return JSON.stringify(one) === JSON.stringify(other);
}

type FieldName<Draft> = keyof Draft & string;

/** The names of the fields in which two drafts differ. */
export function changedFields<Draft extends Fields>(from: Draft, to: Draft): FieldName<Draft>[] {
  return (Object.keys(to) as FieldName<Draft>[]).filter((name) => !isSame(from[name], to[name]));
}

/** A form, and the record as it was when the form was filled from it and as somebody else has left it meanwhile. */
export interface Versions<Draft extends Fields> {
  readonly base: Draft;
  readonly mine: Draft;
  readonly theirs: Draft;
}

export interface MergedFields<Draft extends Fields> {
  /** The record as others have left it, with my changes on top. */
  readonly draft: Draft;
  /** Fields that others have changed and that I do not have like that. */
  readonly news: readonly FieldName<Draft>[];
  /** Those of them that I have changed too, to something else: the draft has them as mine. */
  readonly disputed: readonly FieldName<Draft>[];
}

/** Merges field by field: what only one has changed is taken from whoever has changed it. */
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

/** The number that a text is; null for an empty one. A text that is no number stays a text: the server says what is wrong with it. */
export function numberOf(text: string): number | string | null {
  const trimmed = text.trim();
  if (trimmed === '') return null;
  return Number.isFinite(Number(trimmed)) ? Number(trimmed) : trimmed;
}
