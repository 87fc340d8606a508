import * as z from 'zod';
import { CALL_TYPES } from '../../model/event.ts';
import type { SettingsSnapshot } from '../../ports/settings-store.ts';
import type {
  EventIdentity,
  OpenTail,
  TailCall,
  TailDelivery,
  TailDiscard,
  TailEvents,
  TailFilter,
} from '../../reporting/contract.ts';
import { textInQuery } from '../ids.ts';
import { type ApiOperation, defineOperation, type Shape, StreamResult } from '../operation.ts';
import { Problem } from '../problem.ts';
import { destinationByName } from '../records.ts';
import { ASKED_DESTINATION } from '../token-limits.ts';
import { unknownName } from '../unknown-name.ts';
import { attemptSchema } from './reports.ts';

export interface TailOperationDependencies {
  readonly settings: { now(): SettingsSnapshot };
  readonly open: OpenTail;
}

/** Seconds. Places are few, and people take and leave them by hand. */
const RETRY_AFTER = 10;

const booleanParameter = z
  .enum(['true', 'false'])
  .default('false')
  .transform((text) => text === 'true');

const MAX_RULE = 'must be a whole number from 1 to 1000';

const tailQuery = z.object({
  source: textInQuery.min(1).exactOptional().meta({ description: 'Only what this source sent.' }),
  destination: textInQuery.min(1).exactOptional().meta({ description: 'Only deliveries to this one.' }),
  type: z.enum(CALL_TYPES).exactOptional().meta({ description: 'Only events of this type.' }),
  failed: booleanParameter.meta({
    description: 'Only deliveries that failed, and calls that were discarded.',
  }),
  max: z.coerce
    .number(MAX_RULE)
    .int(MAX_RULE)
    .min(1, MAX_RULE)
    .max(1000, MAX_RULE)
    .exactOptional()
    .meta({
      description:
        'So many calls a second, evenly chosen, with their deliveries, and as many failures; `passed` counts the others. ' +
        'Everything when absent.',
    }),
  body: booleanParameter.meta({ description: 'Events whole, and not only what names them.' }),
});

/** The name of an event, and its user. */
export const namingFields = {
  userId: z.string().exactOptional(),
  anonymousId: z.string().exactOptional(),
  previousId: z.string().exactOptional(),
  groupId: z.string().exactOptional(),
  event: z.string().exactOptional(),
  name: z.string().exactOptional(),
} satisfies Shape<Omit<EventIdentity, 'messageId' | 'type'>>;

/** The fields that identify an event; with `body=true` the whole event. */
const eventSchema = z.looseObject({
  messageId: z.string(),
  type: z.enum(CALL_TYPES),
  ...namingFields,
} satisfies Shape<EventIdentity>);

const tailAttemptSchema = attemptSchema.omit({ answer: true });

const callSchema = z.object({
  at: z.string(),
  source: z.string(),
  event: eventSchema,
  latencyMs: z.number(),
} satisfies Shape<TailCall>);

/** The data of each event of the stream, by the event's name. */
export const TAIL_EVENTS = {
  accepted: callSchema,
  duplicate: callSchema,
  discarded: z.object({
    at: z.string(),
    source: z.string().exactOptional(),
    reason: z.string(),
  } satisfies Shape<TailDiscard>),
  settled: z.object({
    at: z.string(),
    source: z.string(),
    destination: z.string(),
    event: eventSchema,
    state: z.enum(['delivered', 'retrying', 'dead', 'dropped']),
    reason: z.string().exactOptional(),
    note: z.string().exactOptional(),
    nextAttemptAt: z.string().exactOptional(),
    attempts: z.array(tailAttemptSchema),
  } satisfies Shape<TailDelivery>),
  lost: z.object({ count: z.int() } satisfies Shape<TailEvents['lost']>),
  passed: z.object({ count: z.int() } satisfies Shape<TailEvents['passed']>),
} satisfies Shape<TailEvents>;

/** spec/contract.md, "Live tail". */
export function tailOperations({ settings, open }: TailOperationDependencies): ApiOperation[] {
  return [
    defineOperation({
      method: 'GET',
      path: 'tail',
      role: 'viewer',
      isStream: true,
      isInMemory: true,
      summary: 'Shows what happens as it happens: calls accepted or not, and every attempt to deliver',
      query: tailQuery,
      answer: z.union([TAIL_EVENTS.settled, TAIL_EVENTS.accepted, TAIL_EVENTS.discarded, TAIL_EVENTS.lost]),
      problems: ['unknown_name', 'too_many_viewers', 'bodies_not_shown'],
      isWithin: ASKED_DESTINATION,
      run: async ({ query: wish, client }) => {
        refuseUnknownNames(wish, settings.now());
        if (wish.body && client.caller?.bodies === false) throw new Problem('bodies_not_shown');
        const body = open({ ...wish, mayWatch: client.isSignedIn });
        if (body === 'full') throw new Problem('too_many_viewers', { retryAfter: RETRY_AFTER });
        return new StreamResult(body);
      },
    }),
  ];
}

/** A mistyped name would match nothing, and the silence would look like quiet traffic. */
function refuseUnknownNames({ source, destination }: TailFilter, now: SettingsSnapshot) {
  if (destination !== undefined) destinationByName(destination, now);
  if (source === undefined || now.sources.some(({ name }) => name === source)) return;
  throw unknownName(source, 'source', now.sources);
}
