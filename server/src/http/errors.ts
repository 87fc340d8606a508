import catalogue from '../../../spec/errors.json' with { type: 'json' };

/** Every code the receiving API can answer with: a wrong one does not compile. */
export type ErrorCode = keyof typeof catalogue.request | keyof typeof catalogue.discard;

export interface CatalogueEntry {
  readonly status: number;
  /** One sentence for the client. */
  readonly message: string;
}

interface Described {
  readonly status?: number;
  readonly message: string;
}

/**
 * Status and message of every code. A discard that is never an answer has no status in the catalogue; should one reach a
 * client all the same, it is the client's to mend.
 */
export const ERRORS: ReadonlyMap<string, CatalogueEntry> = new Map(
  Object.entries<Described>({ ...catalogue.request, ...catalogue.discard }).map(
    ([code, { status = 400, message }]) => [code, { status, message }],
  ),
);

export function isErrorCode(code: string): code is ErrorCode {
  return ERRORS.has(code);
}

export function entryOf(code: ErrorCode): CatalogueEntry {
  return ERRORS.get(code)!;
}
