import type { Time } from '../../../model/time.ts';
import { hasEnded, type RegulationDocument } from '../../../ports/regulations.ts';
import type { Transaction } from '../database.ts';
import { REGULATION_STATEMENTS as SQL } from './statements.ts';

/** Regulations that one slice looks at. */
export const SLICE_ENDED = 100;

interface EndedRow {
  readonly number: number;
  readonly document: string;
}

/** Where the search for regulations that have ended goes on, and whether some are left to be looked at. */
interface EndedSearch {
  readonly after: number;
  readonly hasMore: boolean;
}

/** Lets the receipts of some regulations go that ended before a time, from a number on. */
export async function dropEnded(transaction: Transaction, after: number, before: Time): Promise<EndedSearch> {
  const rows = await transaction.rows<EndedRow>(SQL.ended, [after, SLICE_ENDED]);
  const gone = rows.filter((row) => isEnded(row, before)).map(({ number }) => number);
  if (gone.length > 0) await transaction.rows(SQL.drop, [gone]);
  const hasMore = rows.length === SLICE_ENDED;
  return { after: hasMore ? rows.at(-1)!.number : 0, hasMore };
}

/** A damaged record stays. */
export function isEnded({ document }: Pick<EndedRow, 'document'>, before: Time): boolean {
  try {
    return hasEnded(JSON.parse(document) as RegulationDocument, before);
  } catch {
    return false;
  }
}
