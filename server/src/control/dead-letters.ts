import * as z from 'zod';
import { type Destination, destinationOfLane, lanesOf, placeOfLane } from '../model/destination.ts';
import type { Clock } from '../ports/clock.ts';
import type { DeadLetter, DeadLetters, DeadQuery } from '../ports/dead-letters.ts';
import type { EventLog } from '../ports/event-log.ts';
import type { SettingsSnapshot } from '../ports/settings.ts';
import { destinationNamed } from './destination-named.ts';
import { listOf, paging, time } from './lists.ts';
import { type Operation, operation } from './operation.ts';
import { Problem } from './problem.ts';

export interface DeadLetterTools {
  readonly deadLetters: DeadLetters;
  readonly log: Pick<EventLog, 'read'>;
  readonly settings: { now(): SettingsSnapshot };
  readonly clock: Clock;
  readonly newId: () => string;
  /** Something of a lane waits on disk. */
  readonly parked: (lane: number, at: number) => void;
}

const MOST = 500;
/** Letters counted at once for a dry run. */
const COUNTED = 10_000;

const filter = {
  reason: z.string().min(1).exactOptional(),
  from: time.exactOptional(),
  to: time.exactOptional(),
};

/** As `trace` prints it: the event's position and the lane. */
const ID = /^(\d{1,15})-(\d{1,15})$/;
const deliveryId = z
  .string()
  .regex(ID, 'must be the id of a delivery, as GET /api/v1/deliveries and millrace trace --json give it');

const listing = z.object({
  destination: z.string(),
  state: z.literal(
    'dead',
    'must be dead: deliveries of other states are found by GET /api/v1/events/{messageId}',
  ),
  ...filter,
  ...paging,
});

const letter = z.object({
  id: z.string(),
  destination: z.string(),
  state: z.literal('dead'),
  reason: z.string(),
  diedAt: z.string(),
  endpoint: z.string().exactOptional(),
  messageId: z.string().exactOptional(),
  type: z.string().exactOptional(),
  receivedAt: z.string().exactOptional(),
});

const wish = z.strictObject({
  destination: z.string(),
  ids: z.array(deliveryId).min(1).max(MOST).exactOptional(),
  ...filter,
  dryRun: z.boolean().default(false),
});

/** contract.md section 4, `deliveries` (those that are dead) and `redeliveries`. */
export function deadLetterOperations(tools: DeadLetterTools): Operation[] {
  const { settings, deadLetters, clock } = tools;
  return [
    operation({
      ...{ method: 'GET', path: 'deliveries', role: 'viewer' },
      summary: 'Lists dead letters, the newest first',
      query: listing,
      answer: listOf(letter),
      problems: ['unknown_name'],
      run: async ({ query: { destination: name, state: _, limit, cursor, ...query } }) => {
        const destination = destinationNamed(name, settings.now());
        const page = await deadLetters.list({ ...query, destinations: lanesIn(destination) }, limit, cursor);
        const data = await shown(page.letters, destination, tools);
        return { data, next: page.next ?? null };
      },
    }),
    operation({
      ...{ method: 'POST', path: 'redeliveries', role: 'editor' },
      summary: 'Owes dead letters once more, with a new retry window',
      body: wish,
      answer: z.object({ id: z.string().exactOptional(), count: z.int() }),
      problems: ['unknown_name'],
      run: async ({ body: { destination: name, ids, dryRun, ...query } }) => {
        const destination = destinationNamed(name, settings.now());
        const only = ids?.map((id) => deliveryOf(id, destination));
        const dead: DeadQuery = {
          ...{ ...query, destinations: lanesIn(destination) },
          ...(only === undefined ? {} : { only }),
        };
        if (dryRun) return { count: await countOf(dead, deadLetters) };
        const now = clock.now();
        const count = await revive(dead, now, deadLetters);
        if (count > 0) for (const lane of lanesIn(destination)) tools.parked(lane, now);
        return { id: tools.newId(), count };
      },
    }),
  ];
}

/** Every lane it may ever have had: one that the settings have no longer may have dead letters all the same. */
function lanesIn(destination: Destination): number[] {
  const endpoints = Array.from({ length: 5 }, () => ({ url: '', headers: {} }));
  return lanesOf({ ...destination, settings: { ...destination.settings, endpoints, success: 'each' } }).map(
    ({ id }) => id,
  );
}

function deliveryOf(
  id: string,
  { id: destination, name }: Destination,
): { destination: number; position: number } {
  const [, position, lane] = ID.exec(id)!;
  if (destinationOfLane(Number(lane)) !== destination) {
    const message = `is a delivery of another destination than ${JSON.stringify(name)}`;
    throw new Problem('invalid_parameters', { errors: [{ path: `body.ids ${id}`, message }] });
  }
  return { destination: Number(lane), position: Number(position) };
}

async function revive(query: DeadQuery, now: number, deadLetters: DeadLetters): Promise<number> {
  let count = 0;
  for (;;) {
    const slice = await deadLetters.revive(query, now);
    if (slice === 0) return count;
    count += slice;
  }
}

async function countOf(query: DeadQuery, deadLetters: DeadLetters): Promise<number> {
  let count = 0;
  let from: string | undefined;
  do {
    const page = await deadLetters.list(query, COUNTED, from);
    count += page.letters.length;
    from = page.next;
  } while (from !== undefined);
  return count;
}

/** An event that was erased has no messageId any more. */
async function shown(
  letters: readonly DeadLetter[],
  { name, settings }: Destination,
  { log }: Pick<DeadLetterTools, 'log'>,
): Promise<object[]> {
  const events = await log.read(letters.map(({ position }) => position));
  return letters.map(({ destination, position, reason, at }, nth) => {
    const event = events[nth]?.event;
    const endpoint =
      settings.success === 'each' ? settings.endpoints[placeOfLane(destination)]?.url : undefined;
    return {
      ...{ id: `${position}-${destination}`, destination: name, state: 'dead', reason },
      diedAt: new Date(at).toISOString(),
      ...(endpoint === undefined ? {} : { endpoint }),
      ...(event === undefined
        ? {}
        : { messageId: event.messageId, type: event.type, receivedAt: event.receivedAt }),
    };
  });
}
