import catalogue from '../../../../spec/errors.json' with { type: 'json' };

/** The explanation of a reason: its cause, and what to do. */
interface Advice {
  readonly cause: string;
  readonly action: string;
}

interface CatalogueEntry {
  readonly message: string;
  readonly hint: string;
}

const { outcome, dead, drop, discard, skip } = catalogue;
const ENTRIES: ReadonlyMap<string, CatalogueEntry> = new Map(
  [outcome, dead, drop, discard, skip].flatMap((list) => Object.entries<CatalogueEntry>(list)),
);

/**
 * Looks up what the catalogue of errors says about the reason of an attempt, a dead letter, a drop, a discard
 * or a skip. A status without an entry has that of its class, such as `status_5xx`.
 */
export function adviceFor(reason: string): Advice {
  const ofClass = reason.replace(/^(status_\d)\d\d$/, '$1xx');
  const entry = ENTRIES.get(reason) ?? ENTRIES.get(ofClass);
  if (entry !== undefined) return { cause: entry.message, action: entry.hint };
  if (ofClass !== reason) return { cause: outcome.status_nnn.message, action: outcome.status_nnn.hint };
  return {
    cause: `This version of the console has no words for the reason ${reason}.`,
    action: 'Look at the documentation.',
  };
}

/** The same in one line. */
export function reasonSentence(reason: string): string {
  const { cause, action } = adviceFor(reason);
  return `${cause} ${action}`;
}

/** The short result of an attempt, such as "503 in 12 ms". */
export function resultWord(reason: string, status?: number): string {
  if (status !== undefined) return String(status);
  return reason.replace(/^status_(?=\d+$)/, '').replaceAll('_', ' ');
}
