/**
 * Advisory locks of the database. Positions: held for the microseconds in which a block is taken. Slot: shared by every append, alone
 * for the opening of a slot of the log or of keys. Adoption, upkeep and schema: alone. Migration: held by the program that moves the whole installation. See also `SIGN_OF_LIFE`.
 */
export const LOCKS = {
  positions: 1,
  slot: 2,
  adoption: 3,
  upkeep: 4,
  schema: 5,
  migration: 7,
} as const;
