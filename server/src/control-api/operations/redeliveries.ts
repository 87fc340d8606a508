import * as z from 'zod';
import type { Destination } from '../../model/destination.ts';
import { CALL_TYPES } from '../../model/event.ts';
import { defined } from '../../model/json.ts';
import { destinationOfLane } from '../../model/lane.ts';
import type { Replay, ReplayPreview, ReplayRequest, ReplayStatus } from '../../model/replay.ts';
import { type Duration, type Monotonic, SECOND, type Time } from '../../model/time.ts';
import type { SettingsSnapshot } from '../../ports/settings-store.ts';
import type { NamedRedelivery, NamedRedeliveryResult } from '../../replay/contract.ts';
import { deliveryIdSchema, parseDeliveryId } from '../delivery-id.ts';
import { type ApiOperation, type Described, defineOperation, type Reach } from '../operation.ts';
import { timeParameter } from '../pagination.ts';
import { Problem } from '../problem.ts';
import { destinationByName, type RecordDependencies } from '../records.ts';
import { sourceFilter } from './events.ts';
import { createdReplay, DEFAULT_RATE, MAX_RATE } from './replays.ts';

export interface RedeliveryOperationDependencies extends Pick<RecordDependencies, 'settings' | 'clock'> {
  /** Gives ids in rising order. */
  readonly newId: () => string;
  readonly preview: (wish: ReplayRequest) => Promise<ReplayPreview>;
  readonly status: (replay: Replay) => Promise<ReplayStatus>;
  /** Resolves when a replay has ended, or after `limit`. */
  readonly waitForEnd: (id: string, limit: Duration) => Promise<void>;
  readonly redeliverNamed: (request: NamedRedelivery) => Promise<NamedRedeliveryResult>;
}

const MAX_IDS = 500;

/** Most redeliveries end within this time, and their answer has the result. */
const WAIT_FOR_END: Duration = SECOND;

const redeliveryInput = z.strictObject({
  destination: z.string(),
  ids: z.array(deliveryIdSchema).min(1).max(MAX_IDS).exactOptional().meta({ description: 'Of deliveries.' }),
  messageIds: z
    .array(z.string().min(1))
    .min(1)
    .max(MAX_IDS)
    .exactOptional()
    .meta({ description: 'Of events.' }),
  state: z.enum(['delivered', 'dead', 'dropped']).exactOptional().meta({
    description: 'Only deliveries that ended so. Default: with ids whatever their state, without ids `dead`.',
  }),
  reason: z.string().min(1).exactOptional().meta({ description: 'Why they are dead or dropped.' }),
  source: z.string().exactOptional().meta({ description: 'Name of the source of their events.' }),
  type: z.enum(CALL_TYPES).exactOptional(),
  from: timeParameter.exactOptional().meta({
    description:
      'Of delivered ones: their events arrived at this time or later; of dead and dropped ones: given up then or later.',
  }),
  to: timeParameter
    .exactOptional()
    .meta({ description: 'Of delivered ones: before this time; of dead and dropped ones likewise.' }),
  rate: z.int().min(1).max(MAX_RATE).default(DEFAULT_RATE).meta({
    description: 'Delivered events a second at most. The others are owed as quickly as they are found.',
  }),
  dryRun: z.boolean().default(false),
});

type RedeliveryInput = z.output<typeof redeliveryInput>;
type RedeliveryAnswer = Described<z.output<typeof redeliverySchema>>;

const redeliverySchema = z.object({
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
  withheld: z.int().meta({
    description: 'Of the ids: those that the visitor has not consented to, and that are left as they are.',
  }),
  missing: z.array(z.string()).meta({ description: 'Of the ids: those that no stored event has.' }),
});

/** spec/contract.md, "Redeliveries". */
export function redeliveryOperations(dependencies: RedeliveryOperationDependencies): ApiOperation[] {
  return [
    defineOperation({
      method: 'POST',
      path: 'redeliveries',
      role: 'editor',
      sharesAnswer: true,
      summary:
        'Sends events to a destination once more: dead letters and dropped ones with a new retry window, delivered ones as new deliveries',
      body: redeliveryInput,
      answer: redeliverySchema,
      problems: ['unknown_name'],
      isWithin: redeliversOwn,
      run: async ({ body, by }) => {
        const now = dependencies.settings.now();
        const destination = destinationByName(body.destination, now);
        const { source: sourceId } = sourceFilter(body.source, now);
        checkFilter(body);
        if (body.ids === undefined && body.messageIds === undefined)
          return await redeliverByFilter(body, by, dependencies);
        const ids = (body.ids ?? []).map((id) => ownDelivery(id, destination));
        return await redeliverByName({ ...body, destination, ids, sourceId }, dependencies);
      },
    }),
  ];
}

/** A messageId may be of any source, also of one that this destination gets nothing of. */
const redeliversOwn: Reach = ({ destinations }, { body }) => {
  const { destination, messageIds } = Object(body) as Partial<RedeliveryInput>;
  return destinations.includes(destination ?? '') && messageIds === undefined;
};

function checkFilter({ state, reason, from, to }: RedeliveryInput): void {
  if (reason !== undefined && state === 'delivered') {
    const message = 'is about dead or dropped ones: leave out reason, or ask for one of these states';
    throw new Problem('invalid_parameters', { errors: [{ path: 'body.reason', message }] });
  }
  if (from !== undefined && to !== undefined && from >= to) {
    throw new Problem('invalid_parameters', {
      errors: [{ path: 'body.from', message: 'must be before to' }],
    });
  }
}

function ownDelivery(id: string, { id: destination, name }: Destination) {
  const { position, lane } = parseDeliveryId(id)!;
  if (destinationOfLane(lane) !== destination) {
    const message = `is a delivery of another destination than ${JSON.stringify(name)}`;
    throw new Problem('invalid_parameters', { errors: [{ path: `body.ids ${id}`, message }] });
  }
  return { id, destination: lane, position };
}

async function redeliverByName(
  request: NamedRedelivery,
  { redeliverNamed }: RedeliveryOperationDependencies,
): Promise<RedeliveryAnswer> {
  const { id, count, pending, withheld, missing } = await redeliverNamed(request);
  return {
    ...defined({ id }),
    count,
    estimated: false,
    pending,
    withheld,
    missing,
    ...defined({ state: id === undefined ? undefined : ('done' as const) }),
  };
}

/** Runs as a replay: a stored record, with which the next process goes on after a crash. */
async function redeliverByFilter(
  body: RedeliveryInput,
  by: string,
  dependencies: RedeliveryOperationDependencies,
): Promise<RedeliveryAnswer> {
  const { settings, clock, preview: look } = dependencies;
  const createdAt = clock.now();
  const asked = replayRequestOf(body, createdAt, clock.monotonic());
  const preview = await look(asked);
  const found = { count: preview.count, estimated: !preview.isExact, pending: 0, withheld: 0, missing: [] };
  if (body.dryRun || (preview.count === 0 && preview.isExact)) return found;
  const made: Replay = {
    ...asked,
    id: dependencies.newId(),
    rate: body.rate,
    preview,
    state: 'running',
    createdAt,
    by,
  };
  await settings.change((now: SettingsSnapshot) => {
    destinationByName(body.destination, now);
    return createdReplay(made, now);
  });
  await dependencies.waitForEnd(made.id, WAIT_FOR_END);
  const state = settings.now().replays.find(({ id }) => id === made.id)?.state ?? 'running';
  if (state !== 'done') return { ...found, id: made.id, state };
  const { events } = await dependencies.status(made);
  return { ...found, id: made.id, count: events, estimated: false, state };
}

function replayRequestOf(
  { destination, state = 'dead', reason, source, type, from, to }: RedeliveryInput,
  now: Time,
  before: Monotonic,
) {
  const asked: ReplayRequest = {
    destination,
    from: from ?? 0,
    to: Math.min(to ?? now, now),
    redelivers: { state, before, ...defined({ reason }) },
    ...defined({ source, types: type === undefined ? undefined : [type] }),
  };
  return asked;
}
