import type { Answer } from '../../api/client.ts';
import { plural } from '../../ui/format.ts';

/** A user or visitor of a regulation. */
export type Subject = Answer<'/api/v1/regulations/{id}/subjects', 'get'>['data'][number];

type Join = Subject['joins'][number];

type Regulation = Answer<'/api/v1/regulations/{id}', 'get'>;

const RULES = { identify: 'an event with both ids', alias: 'an alias', external: 'a shared external id' };

/** The event that joined an id, in words: "an alias from website, event m2". */
export function joinText({ rule, source, messageId }: Join): string {
  if (rule === null) return 'an event that is not stored any more';
  const from = source === null ? '' : ` from ${source}`;
  return `${RULES[rule]}${from}${messageId === null ? '' : `, event ${messageId}`}`;
}

/** The joined ids of a receipt, in words: "3 by an alias from website"; empty where there are none. */
export function joinedText({ joined = [] }: Pick<Regulation, 'joined'>): string {
  return joined
    .map(({ rule, source, ids }) => {
      const by = rule === null ? 'an event that is not stored any more' : RULES[rule];
      return `${ids.toLocaleString('en')} by ${by}${source === null ? '' : ` from ${source}`}`;
    })
    .join(', ');
}

/** Number of userIds that are left out of all these. */
export function leftOutIn(subjects: readonly Subject[]): number {
  return subjects.reduce((sum, { leftOut }) => sum + leftOut.length, 0);
}

/** The id of a subject, and why it is left out if it is. */
export function subjectTitle({ userId, anonymousId, joins, outcome, unknown }: Subject): string {
  const name = userId ?? anonymousId ?? '';
  if (outcome !== undefined) return `${name}: belongs to a user, so nothing is done of it`;
  if (unknown === true) return `${name}: names nobody`;
  return joins.length === 0 ? name : `${name}, with ${plural(joins.length, 'joined id')}`;
}

/** The answer to the dry run of a deletion. */
export interface Foreseen {
  readonly found: readonly Subject[];
  readonly events: number;
  readonly profiles: number;
  readonly destinations: readonly string[];
}

/** Says in words how much a deletion would erase, and which destinations it would tell. */
export function foreseenText({ events, profiles, destinations }: Foreseen): string {
  const told = destinations.length === 0 ? 'No destination is told.' : `Told: ${destinations.join(', ')}.`;
  return `${plural(events, 'stored event')} and ${plural(profiles, 'profile')} would be erased. ${told}`;
}
