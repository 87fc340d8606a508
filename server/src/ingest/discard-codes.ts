import type catalogue from '../../../spec/errors.json';

/** Why a call was not accepted. It counts in the ledger under this name; alone in its request it is also the answer. */
export type DiscardReason = keyof typeof catalogue.discard;

/** Why a request as a whole was refused. */
export type RefusalCode = keyof typeof catalogue.request | DiscardReason;
