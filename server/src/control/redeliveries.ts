import * as z from 'zod';
import { CALL_TYPES } from '../model/call.ts';
import { type Destination, destinationOfLane } from '../model/destination.ts';
import type { Replay, ReplayPreview, ReplayStanding, ReplayWish } from '../model/replay.ts';
import { type Duration, type Monotonic, SECOND, type Time } from '../model/time.ts';
import type { SettingsSnapshot } from '../ports/settings.ts';
import { destinationNamed } from './destination-named.ts';
import { sourceIn } from './events.ts';
import { time } from './lists.ts';
import { type Operation, operation } from './operation.ts';
import { Problem } from './problem.ts';
import type { RecordTools } from './records.ts';
import { type ByIdTools, RedeliveryById } from './redelivery-by-id.ts';
import { MOST_RATE, record, surplus, USUAL_RATE } from './replays.ts';

export interface RedeliveryTools extends Pick<RecordTools, 'settings'>, ByIdTools {
  /** Gives ids in rising order. */
  readonly newId: () => string;
  readonly preview: (wish: ReplayWish) => Promise<ReplayPreview>;
  readonly standing: (replay: Replay) => Promise<ReplayStanding>;
  /** Resolves when a replay has ended, or after this long. */
  readonly ended: (id: string, patience: Duration) => Promise<void>;
}

const MOST = 500;

/** Most redeliveries have ended by then, and their answer says so. */
const PATIENCE: Duration = SECOND;

/** As `trace` prints it: the event's position and the lane. */
const ID = /^(\d{1,15})-(\d{1,15})$/;
const deliveryId = z
  .string()
  .regex(ID, 'must be the id of a delivery, as GET /api/v1/deliveries and millrace trace --json give it');

const wish = z.strictObject({
  destination: z.string(),
  ids: z.array(deliveryId).min(1).max(MOST).exactOptional().meta({ description: 'Of deliveries.' }),
  messageIds: z.array(z.string().min(1)).min(1).max(MOST).exactOptional().meta({ description: 'Of events.' }),
  state: z.enum(['delivered', 'dead']).exactOptional().meta({
    description: 'Only deliveries that ended so. Default: with ids whatever their state, without ids `dead`.',
  }),
  reason: z.string().min(1).exactOptional().meta({ description: 'Why they are dead.' }),
  source: z.string().exactOptional().meta({ description: 'Name of the source of their events.' }),
  type: z.enum(CALL_TYPES).exactOptional(),
  from: time.exactOptional().meta({
    description:
      'Of delivered ones: their events arrived at this time or later; of dead ones: given up then or later.',
  }),
  to: time
    .exactOptional()
    .meta({ description: 'Of delivered ones: before this time; of dead ones likewise.' }),
  rate: z.int().min(1).max(MOST_RATE).default(USUAL_RATE).meta({
    description: 'Delivered events a second at most. Dead ones are owed as quickly as they are found.',
  }),
  dryRun: z.boolean().default(false),
});

type RedeliveryWish = z.output<typeof wish>;

const answer = z.object({
  id: z
    .string()
    .exactOptional()
    .meta({ description: 'Absent for a dry run, and where nothing was to be done.' }),
  count: z.int().meta({ description: 'Deliveries.' }),
  estimated: z
    .boolean()
    .meta({ description: 'The count is an estimate, and never more than what is stored.' }),
  state: z.enum(['running', 'done', 'cancelled', 'failed']).exactOptional().meta({
    description: 'While it is running, `GET replays/{id}` says how far it is, and DELETE ends it.',
  }),
  pending: z.int().meta({ description: 'Of the ids: those that are owed anyway, and are left as they are.' }),
  missing: z.array(z.string()).meta({ description: 'Of the ids: those that no stored event has.' }),
});

/** contract.md section 4, `redeliveries`. */
export function redeliveryOperations(tools: RedeliveryTools): Operation[] {
  return [
    operation({
      ...{ method: 'POST', path: 'redeliveries', role: 'editor' },
      summary:
        'Sends events to a destination once more: dead letters with a new retry window, delivered ones as new deliveries',
      body: wish,
      answer,
      problems: ['unknown_name'],
      run: async ({ body, by }) => {
        const now = tools.settings.now();
        const destination = destinationNamed(body.destination, now);
        const { source: sourceId } = sourceIn(body.source, now);
        check(body);
        if (body.ids === undefined && body.messageIds === undefined) return await byFilter(body, by, tools);
        const ids = (body.ids ?? []).map((id) => deliveryOf(id, destination));
        return await new RedeliveryById(body, { destination, ids, sourceId }, tools).run();
      },
    }),
  ];
}

function check({ state, reason, from, to }: RedeliveryWish): void {
  if (reason !== undefined && state === 'delivered') {
    const message = 'is about dead ones: leave out state, or reason';
    throw new Problem('invalid_parameters', { errors: [{ path: 'body.reason', message }] });
  }
  if (from !== undefined && to !== undefined && from >= to) {
    throw new Problem('invalid_parameters', {
      errors: [{ path: 'body.from', message: 'must be before to' }],
    });
  }
}

function deliveryOf(id: string, { id: destination, name }: Destination) {
  const [, position, lane] = ID.exec(id)!;
  if (destinationOfLane(Number(lane)) !== destination) {
    const message = `is a delivery of another destination than ${JSON.stringify(name)}`;
    throw new Problem('invalid_parameters', { errors: [{ path: `body.ids ${id}`, message }] });
  }
  return { id, destination: Number(lane), position: Number(position) };
}

/** Runs as a replay does: it is a record, so that the next process goes on with it after a crash. */
async function byFilter(body: RedeliveryWish, by: string, tools: RedeliveryTools): Promise<object> {
  const { settings, clock, preview: look } = tools;
  const createdAt = clock.now();
  const asked = replayWishOf(body, createdAt, clock.monotonic());
  const preview = await look(asked);
  const found = { count: preview.count, estimated: !preview.isExact, pending: 0, missing: [] };
  if (body.dryRun || (preview.count === 0 && preview.isExact)) return found;
  const made: Replay = {
    ...{ ...asked, id: tools.newId(), rate: body.rate, preview },
    ...{ state: 'running', createdAt, by },
  };
  await settings.change((now: SettingsSnapshot) => {
    destinationNamed(body.destination, now);
    const after = record(made);
    return {
      ...{ sources: [], destinations: [], replays: [made], removed: surplus(now.replays) },
      audit: [{ at: createdAt, by, action: 'created', kind: 'replay', name: made.id, after }],
    };
  });
  await tools.ended(made.id, PATIENCE);
  const state = settings.now().replays.find(({ id }) => id === made.id)?.state ?? 'running';
  if (state !== 'done') return { ...found, id: made.id, state };
  const { events } = await tools.standing(made);
  return { ...found, id: made.id, count: events, estimated: false, state };
}

function replayWishOf(
  { destination, state = 'dead', reason, source, type, from, to }: RedeliveryWish,
  now: Time,
  before: Monotonic,
) {
  const asked: ReplayWish = {
    ...{ destination, from: from ?? 0, to: Math.min(to ?? now, now) },
    redelivers: { state, before, ...(reason === undefined ? {} : { reason }) },
    ...(source === undefined ? {} : { source }),
    ...(type === undefined ? {} : { types: [type] }),
  };
  return asked;
}
