import type { Event } from '../model/event.ts';
import type { EventIdentity } from './contract.ts';

const IDENTIFYING_FIELDS = [
  'messageId',
  'type',
  'userId',
  'anonymousId',
  'previousId',
  'groupId',
  'event',
  'name',
] as const satisfies readonly (keyof EventIdentity)[];

/**
 * The fields of an event that say what it is and whose, as lists and the live tail show it without its body.
 */
export function identityOf(event: Event): EventIdentity {
  const identity: Record<string, unknown> = {};
  for (const field of IDENTIFYING_FIELDS) if (event[field] !== undefined) identity[field] = event[field];
  return identity as EventIdentity;
}
