import { DAY, type Duration } from '../../model/time.ts';

/** Audiences and computed traits of a server. */
export const MAX_COMPUTATIONS = 500;

/** Characters of the text form of one definition, as the limits below. spec/contract.md, "Definitions of traits and audiences". */
export const MAX_DEFINITION_LENGTH = 16_384;

/** Values, audiences and groups in one definition. */
export const MAX_PRIMARIES = 50;

/** Levels of `and`, `or`, `not`, `where` and parentheses. */
export const MAX_NESTING = 20;

/** Entries of one list behind `in`. */
export const MAX_CHOICES = 100;

export const MAX_WITHIN: Duration = 3650 * DAY;

/** A count within a time is exact when it is compared with this number at most; beyond it the window moves in whole hours. */
export const MAX_EXACT_COUNT = 64;
