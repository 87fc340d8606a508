/**
 * Ids of users in addresses and fields. An id is taken as it is; where an address or a field cannot carry it
 * (halves of surrogate pairs, line ends) it is written as JSON text, and read so only where that was asked
 * for: quotes alone mean nothing.
 */

export type IdKind = 'userId' | 'anonymousId';

/** An id in the query of an address and of a request. At most one of the fields is set. */
export interface IdParameters {
  readonly userId?: string;
  readonly anonymousId?: string;
  readonly userIdJson?: string;
  readonly anonymousIdJson?: string;
}

export const ID_PARAMETERS = ['userId', 'anonymousId', 'userIdJson', 'anonymousIdJson'] as const;

/** An id as it stands in a field. */
export interface TypedId {
  readonly kind: IdKind;
  readonly text: string;
  /** The text is JSON. */
  readonly isJson: boolean;
}

/** The query for an id: as JSON text where an address cannot carry it otherwise. */
export function parametersOf(kind: IdKind, id: string): IdParameters {
  return id.isWellFormed() ? { [kind]: id } : { [`${kind}Json`]: JSON.stringify(id) };
}

/** The query for what was typed; empty for nothing. */
export function parametersOfTyped({ kind, text, isJson }: TypedId): IdParameters {
  if (text === '') return {};
  return { [isJson ? `${kind}Json` : kind]: text };
}

/** The text of a field for the id in a query. */
export function typedOf({ userId, anonymousId, userIdJson, anonymousIdJson }: IdParameters): TypedId {
  const isJson =
    userId === undefined && anonymousId === undefined && (userIdJson ?? anonymousIdJson) !== undefined;
  const isAnonymous =
    userId === undefined && userIdJson === undefined && (anonymousId ?? anonymousIdJson) !== undefined;
  return {
    kind: isAnonymous ? 'anonymousId' : 'userId',
    text: userId ?? userIdJson ?? anonymousId ?? anonymousIdJson ?? '',
    isJson,
  };
}

/** The message for a text that is no JSON text. */
export const JSON_RULE = 'is no text of JSON: write it in double quotes, such as "mia-\\ud83d"';

/** The id that a JSON text stands for; undefined where it is none. */
export function idOfJson(text: string): string | undefined {
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === 'string' && value !== '' ? value : undefined;
  } catch {
    return undefined;
  }
}

/**
 * Tells whether an id can be a step of a path. A step of dots leads to another page, and half of a surrogate
 * pair has no form in a path.
 */
export function fitsPath(id: string): boolean {
  return !/^\.\.?$/.test(id) && id.isWellFormed();
}

/**
 * An id as a step of an address of the console, before escaping: as JSON text behind a tilde if a path cannot
 * carry it.
 */
export function pathStepOf(id: string): string {
  return fitsPath(id) && !id.startsWith('~"') ? id : `~${JSON.stringify(id)}`;
}

/** The id of such a step. */
export function idOfPathStep(step: string): string {
  return (step.startsWith('~"') ? idOfJson(step.slice(1)) : undefined) ?? step;
}

/** Tells whether a line of a field can carry an id as it is. */
export function fitsLine(id: string): boolean {
  return id.isWellFormed() && !/[\p{Cc}\u2028\u2029]/u.test(id);
}
