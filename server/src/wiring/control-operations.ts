import { randomUUID } from 'node:crypto';
import { uuidv7 } from 'uuidv7';
import { alertSchema } from '../config/alert-schema.ts';
import { audienceSchema, traitSchema } from '../config/computation-schema.ts';
import { mentionsOf } from '../config/computations.ts';
import { destinationSchema } from '../config/destination-schema.ts';
import { checkRecords } from '../config/load.ts';
import { sourceSchema } from '../config/schema.ts';
import type { ApiOperation } from '../control-api/operation.ts';
import { type AlertOperationDependencies, alertOperations } from '../control-api/operations/alerts.ts';
import { auditOperations } from '../control-api/operations/audit.ts';
import { backupOperations } from '../control-api/operations/backups.ts';
import { comparisonOperations } from '../control-api/operations/comparison.ts';
import { computationOperations } from '../control-api/operations/computations.ts';
import { configOperations, type RecordsOfFile } from '../control-api/operations/config.ts';
import { deliveryOperations } from '../control-api/operations/deliveries.ts';
import {
  type DeliveryRequestDependencies,
  deliveryRequestOperations,
} from '../control-api/operations/delivery-requests.ts';
import {
  type DestinationActionDependencies,
  destinationActionOperations,
} from '../control-api/operations/destination-actions.ts';
import { destinationOperations } from '../control-api/operations/destinations.ts';
import { eventOperations } from '../control-api/operations/events.ts';
import { mergeOperations } from '../control-api/operations/merges.ts';
import { profileOperations } from '../control-api/operations/profiles.ts';
import { redeliveryOperations } from '../control-api/operations/redeliveries.ts';
import { type ErasedFrom, regulationOperations } from '../control-api/operations/regulations.ts';
import { replayOperations } from '../control-api/operations/replays.ts';
import { reportOperations } from '../control-api/operations/reports.ts';
import { type SessionOperationDependencies, sessionOperations } from '../control-api/operations/session.ts';
import { sourceOperations } from '../control-api/operations/sources.ts';
import { splitOperations } from '../control-api/operations/splits.ts';
import { tailOperations } from '../control-api/operations/tail.ts';
import { timelineOperations } from '../control-api/operations/timeline.ts';
import { type TokenOperationDependencies, tokenOperations } from '../control-api/operations/tokens.ts';
import { PreviewDesk } from '../control-api/preview-desk.ts';
import type { EndpointCheckDependencies } from '../control-api/records.ts';
import type { Dispatcher } from '../delivery/dispatcher.ts';
import type { Destination } from '../model/destination.ts';
import { laneIdsOf } from '../model/lane.ts';
import { everySource } from '../model/settings.ts';
import type { Duration } from '../model/time.ts';
import type { Clock } from '../ports/clock.ts';
import type { DeliveryQueue } from '../ports/delivery-queue.ts';
import { type DestinationTypes, targetsOf } from '../ports/destination-type.ts';
import { StorageError } from '../ports/event-log.ts';
import type { Logger } from '../ports/logger.ts';
import type { StoreView } from '../ports/store-view.ts';
import type { Users } from '../ports/users.ts';
import type { RegulationRequests } from '../regulations/contract.ts';
import { redeliverNamed } from '../replay/redelivery.ts';
import type { Replayer } from '../replay/replayer.ts';
import { Comparer } from '../reporting/comparison/comparison.ts';
import type { TimelineQuery, TimelineReport } from '../reporting/contract.ts';
import { failureGroups } from '../reporting/failures.ts';
import type { LiveTail } from '../reporting/live-tail.ts';
import { SearchService } from '../reporting/search.ts';
import type { ReportService } from '../reporting/status.ts';
import { withholding } from '../routing/router.ts';
import { longestWindowOf } from '../users/language/references.ts';
import type { SettingsService } from './settings-service.ts';

type ControlledUsers = Pick<
  Users,
  | ('joinedIds' | 'profile' | 'rebuild' | 'repeat' | 'members' | 'preview' | 'status')
  | ('doubtfulMerges' | 'foreseeSplit' | 'applySplits')
>;

/** The parts that the control API reads and changes. */
export interface ControlOperationDependencies {
  readonly store: StoreView;
  readonly deliveryQueue: Pick<DeliveryQueue, 'enqueue'>;
  readonly dispatcher: Pick<Dispatcher, 'parked'>;
  readonly settings: Pick<SettingsService, 'now' | 'change' | 'audit'>;
  readonly reports: ReportService;
  readonly tail: Pick<LiveTail, 'open'>;
  readonly signIn: SessionOperationDependencies;
  readonly lastUse: TokenOperationDependencies['lastUse'];
  readonly timeline: (query: TimelineQuery) => Promise<TimelineReport>;
  readonly regulations: RegulationRequests;
  readonly erasedFrom: ErasedFrom;
  readonly replays: Pick<Replayer, 'preview' | 'status' | 'waitForEnd'>;
  readonly tryOut: DestinationActionDependencies['tryOut'];
  readonly types: DestinationTypes;
  readonly preview: DeliveryRequestDependencies['preview'];
  readonly judgeEndpoints: EndpointCheckDependencies['judgeEndpoints'];
  readonly alerts: AlertOperationDependencies['alerts'];
  readonly file: RecordsOfFile;
  /** Absent: profiles are off. */
  readonly users?: ControlledUsers;
  /** How long events are kept. */
  readonly retention: Duration;
  readonly clock: Clock;
  readonly logger: Logger;
}

/** Generates a write key where none is given. */
const schemas = {
  source: sourceSchema.partial({ writeKeys: true }),
  destination: destinationSchema,
  audience: audienceSchema,
  trait: traitSchema,
  alert: alertSchema,
};

const NO_USERS: ControlledUsers = {
  profile: async () => undefined,
  joinedIds: async () => [],
  doubtfulMerges: async () => ({ merges: [], undecided: 0 }),
  foreseeSplit: async () => undefined,
  applySplits: async () => {},
  rebuild: async () => ({ profiles: 0, events: 0, poorer: 0 }),
  repeat: async () => false,
  members: async () => ({ members: [] }),
  preview: async () => {
    throw new StorageError('profiles are off');
  },
  status: async () => ({ state: 'off', profiles: 0, bytes: 0, behind: 0, lag: 0, computations: [] }),
};

const DEFINITIONS = { mentionsOf, longestWindow: longestWindowOf };

/** Operations on users and on the ids that belong together. */
function userOperations({
  users = NO_USERS,
  settings,
  clock,
}: Pick<ControlOperationDependencies, 'users' | 'settings' | 'clock'>): ApiOperation[] {
  return [
    ...profileOperations({ users, settings }),
    ...mergeOperations({ users }),
    ...splitOperations({ users, settings, clock, newId: uuidv7 }),
  ];
}

/** Comparisons of sources, one after the other. */
function comparisons({
  settings,
  ...parts
}: ConstructorParameters<typeof Comparer>[0] &
  Pick<ControlOperationDependencies, 'settings'>): ApiOperation[] {
  const { compare } = new Comparer(parts);
  return comparisonOperations({ settings, now: () => parts.clock.now(), compare });
}

/** All operations of the control API. */
export function controlOperations({
  store,
  deliveryQueue,
  dispatcher,
  settings,
  reports,
  tail,
  signIn,
  lastUse,
  timeline,
  regulations,
  erasedFrom,
  replays,
  tryOut,
  types,
  preview,
  judgeEndpoints,
  alerts,
  file,
  users = NO_USERS,
  retention,
  clock,
  logger,
}: ControlOperationDependencies): ApiOperation[] {
  const records = {
    settings,
    clock,
    check: checkRecords,
    schemas,
    types,
    judgeEndpoints,
    pending: async () => {
      const { destinations } = await reports.ledger();
      return ({ name }: Destination) => destinations[name]?.pending ?? 0;
    },
    statusOf: reports.statusOf,
  };
  const { log, history, deadLetters } = store;
  const targetsIn = (destination: Destination) => targetsOf(destination, types);
  const search = new SearchService({
    log,
    history,
    deadLetters,
    clock,
    settings: () => settings.now(),
    joinedIds: (userIds) => users.joinedIds(userIds),
    targetsOf: targetsIn,
  });
  return [
    ...reportOperations(reports),
    ...sessionOperations(signIn),
    ...timelineOperations({ settings, clock, timeline, failureGroups }),
    ...tailOperations({ settings, open: (wish) => tail.open(wish) }),
    ...sourceOperations(records),
    ...destinationOperations(records),
    ...destinationActionOperations({ ...records, tryOut, newMessageId: uuidv7 }),
    ...eventOperations({ settings, search }),
    ...comparisons({ log, clock, regulations, settings }),
    ...deliveryOperations({ settings, search }),
    ...deliveryRequestOperations({ settings, log, types, preview, clock }),
    ...userOperations({ users, settings, clock }),
    ...computationOperations({
      ...{ ...records, ...DEFINITIONS, history, users, retention },
      previews: new PreviewDesk(clock),
    }),
    ...redeliveryOperations({
      ...{ settings, clock, newId: uuidv7, ...replays },
      redeliverNamed: (request) =>
        redeliverNamed(request, {
          ...{ log, history, deadLetters, clock, newId: uuidv7 },
          deliveryQueue,
          lanesOf: (destination) => laneIdsOf(destination, targetsIn(destination)),
          withholding: (destination) => withholding(destination, types),
          sourceOf: (id) => everySource(settings.now()).find((one) => one.id === id),
          parked: (destination, at) => dispatcher.parked(destination, at),
        }),
    }),
    ...replayOperations({ settings, clock, newId: uuidv7, ...replays }),
    ...regulationOperations({ regulations, erasedFrom, settings }),
    ...alertOperations({ ...records, alerts }),
    ...configOperations({ ...records, file }),
    ...tokenOperations({ ...records, lastUse }),
    ...auditOperations(records),
    ...backupOperations({
      clock,
      logger,
      newId: randomUUID,
      backup: (folder, progress) => store.backup(folder, progress),
    }),
  ];
}
