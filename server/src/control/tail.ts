import * as z from 'zod';
import { CALL_TYPES, type CallType } from '../model/call.ts';
import { mayAct } from '../model/role.ts';
import type { AnswerStream } from '../ports/control.ts';
import type { SettingsSnapshot } from '../ports/settings.ts';
import { destinationNamed } from './destination-named.ts';
import { type Operation, operation } from './operation.ts';
import { Problem } from './problem.ts';
import { ADMIN } from './sign-in.ts';
import { Streamed } from './streamed.ts';

export interface TailTools {
  readonly settings: { now(): SettingsSnapshot };
  /** A new viewer; `full` when there are too many. */
  readonly open: (wish: TailWish) => AnswerStream | 'full';
}

interface TailWish {
  readonly source?: string;
  readonly destination?: string;
  readonly type?: CallType;
  readonly failed: boolean;
  readonly body: boolean;
  readonly mayWatch: () => boolean;
}

/** Seconds. Places are few and their owners come and go by hand. */
const RETRY_AFTER = 10;

const flag = z
  .enum(['true', 'false'])
  .default('false')
  .transform((text) => text === 'true');

const query = z.object({
  source: z.string().min(1).exactOptional().meta({ description: 'Only what this source sent.' }),
  destination: z.string().min(1).exactOptional().meta({ description: 'Only deliveries to this one.' }),
  type: z.enum(CALL_TYPES).exactOptional().meta({ description: 'Only events of this type.' }),
  failed: flag.meta({ description: 'Only deliveries that failed, and calls that were discarded.' }),
  body: flag.meta({ description: 'Events whole, and not only what names them.' }),
});

/** What names an event; with `body=true` all of it. */
const event = z.looseObject({
  messageId: z.string(),
  type: z.enum(CALL_TYPES),
  userId: z.string().exactOptional(),
  anonymousId: z.string().exactOptional(),
  previousId: z.string().exactOptional(),
  groupId: z.string().exactOptional(),
  event: z.string().exactOptional(),
  name: z.string().exactOptional(),
});

const attempt = z.object({
  endpoint: z.string(),
  startedAt: z.string(),
  latencyMs: z.number(),
  outcome: z.enum(['accepted', 'retryable', 'refused']),
  reason: z.string(),
  status: z.int().exactOptional(),
});

const happened = { at: z.string(), source: z.string() };

/** The data of each event of the stream, by the event's name. */
export const TAIL_EVENTS = {
  accepted: z.object({ ...happened, event, latencyMs: z.number() }),
  duplicate: z.object({ ...happened, event, latencyMs: z.number() }),
  discarded: z.object({ ...happened, source: z.string().exactOptional(), reason: z.string() }),
  settled: z.object({
    ...{ ...happened, destination: z.string(), event },
    state: z.enum(['delivered', 'retrying', 'dead']),
    reason: z.string().exactOptional(),
    nextAttemptAt: z.string().exactOptional(),
    attempts: z.array(attempt),
  }),
  lost: z.object({ count: z.int() }),
};

/** contract.md section 4, `tail`. */
export function tailOperations({ settings, open }: TailTools): Operation[] {
  return [
    operation({
      ...{ method: 'GET', path: 'tail', role: 'viewer', isStream: true, isInMemory: true },
      summary: 'Shows what happens as it happens: calls accepted or not, and every attempt to deliver',
      query,
      answer: z.union([TAIL_EVENTS.settled, TAIL_EVENTS.accepted, TAIL_EVENTS.discarded, TAIL_EVENTS.lost]),
      problems: ['unknown_name', 'too_many_viewers'],
      run: async ({ query: wish, by }) => {
        refuseUnknown(wish, settings.now());
        const body = open({ ...wish, mayWatch: () => maySee(by, settings.now()) });
        if (body === 'full') throw new Problem('too_many_viewers', { retryAfter: RETRY_AFTER });
        return new Streamed(body);
      },
    }),
  ];
}

/** A name that is mistyped would show nothing for ever, and look like peace. */
function refuseUnknown(
  { source, destination }: Pick<TailWish, 'source' | 'destination'>,
  now: SettingsSnapshot,
) {
  if (destination !== undefined) destinationNamed(destination, now);
  if (source === undefined || now.sources.some(({ name }) => name === source)) return;
  const hint = `${JSON.stringify(source)} is no source; GET /api/v1/sources lists them.`;
  throw new Problem('unknown_name', { hint });
}

/** Whether the token is still there, and its role still large enough. */
function maySee(by: string, { tokens }: SettingsSnapshot): boolean {
  return by === ADMIN || tokens.some(({ name, role }) => name === by && mayAct(role, 'viewer'));
}
