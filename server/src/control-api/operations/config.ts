import * as z from 'zod';
import type { Destination } from '../../model/destination.ts';
import { isObject, type JsonObject } from '../../model/json.ts';
import { AUDIENCES_SOURCE, type RecordKind, type RecordName, type Role } from '../../model/settings.ts';
import type { DestinationTypes } from '../../ports/destination-type.ts';
import type { AuditEntry, SettingsSnapshot } from '../../ports/settings-store.ts';
import { type DesiredRecords, diffRecords, planRecords } from '../changes.ts';
import {
  type ApiOperation,
  type Described,
  defineOperation,
  type OperationInput,
  TaggedResult,
} from '../operation.ts';
import { type Fault, Problem } from '../problem.ts';
import {
  type AlertAtPath,
  checkEndpoints,
  type DestinationAtPath,
  etagOf,
  matchesEtag,
  recordInput,
  warningsSchema,
} from '../records.ts';
import {
  alertView,
  computationView,
  destinationView,
  sourceViewFor,
  unmaskAlert,
  unmaskSecrets,
} from '../views.ts';
import { type DestinationOperationDependencies, flagParameter, refuseDisconnecting } from './destinations.ts';

const documentInput = z
  .strictObject({
    sources: z.array(recordInput).default([]),
    destinations: z.array(recordInput).default([]),
    audiences: z.array(recordInput).default([]),
    traits: z.array(recordInput).default([]),
    alerts: z.array(recordInput).default([]),
  })
  .meta({ description: 'The records of a configuration file: spec/config.schema.json.' });

const changeSchema = z.object({
  action: z.enum(['created', 'changed', 'removed']),
  kind: z.enum(['source', 'destination', 'audience', 'trait', 'alert', 'token']),
  name: z.string(),
  before: z.looseObject({}).exactOptional(),
  after: z.looseObject({}).exactOptional(),
});

const plannedSchema = z.object({
  applied: z.boolean(),
  changes: z.array(changeSchema),
  kept: z.array(z.string()),
  disconnects: z.array(z.object({ destination: z.string(), owed: z.int() })),
  warnings: warningsSchema,
});

const namesSchema = z.array(z.string());

const fileSchema = z.object({
  sources: namesSchema,
  destinations: namesSchema,
  audiences: namesSchema,
  traits: namesSchema,
  alerts: namesSchema,
});

/**
 * The records of the configuration file with which the server was started. Each start makes them what the
 * file says.
 */
export type RecordsOfFile = Readonly<
  Record<keyof z.output<typeof fileSchema>, readonly { readonly name: string }[]>
>;

interface ConfigOperationDependencies extends DestinationOperationDependencies {
  readonly file: RecordsOfFile;
}

function fileOperation({ file }: Pick<ConfigOperationDependencies, 'file'>): ApiOperation {
  const namesOf = (list: keyof RecordsOfFile) => file[list].map(({ name }) => name).sort();
  return defineOperation({
    method: 'GET',
    path: 'config/file',
    role: 'viewer',
    isInMemory: true,
    summary:
      'Names the records that the configuration file of this start has: the next start undoes other changes of them',
    answer: fileSchema,
    run: async () => ({
      sources: namesOf('sources'),
      destinations: namesOf('destinations'),
      audiences: namesOf('audiences'),
      traits: namesOf('traits'),
      alerts: namesOf('alerts'),
    }),
  });
}

/** spec/contract.md, "Whole configuration". */
export function configOperations(dependencies: ConfigOperationDependencies): ApiOperation[] {
  const { settings, types } = dependencies;
  return [
    fileOperation(dependencies),
    defineOperation({
      method: 'GET',
      path: 'config',
      role: 'viewer',
      isTagged: true,
      isInMemory: true,
      summary: 'Shows all records as a configuration file has them, without their secrets',
      answer: z.object({
        sources: z.array(z.looseObject({})),
        destinations: z.array(z.looseObject({})),
        audiences: z.array(z.looseObject({})),
        traits: z.array(z.looseObject({})),
        alerts: z.array(z.looseObject({})),
      }),
      run: async ({ client: { caller } }) =>
        new TaggedResult(exportRecords(settings.now(), types, caller?.role), tagOf(settings.now(), types)),
    }),
    defineOperation({
      method: 'PUT',
      path: 'config',
      role: 'editor',
      isTagged: true,
      summary: 'Makes the records what a configuration file says, all of them or none',
      query: z.object({
        dryRun: flagParameter.describe('Only says what would change.'),
        prune: flagParameter.describe('Also removes the records that are not named.'),
        confirm: flagParameter.describe(
          'Also where it disconnects a destination that something is still owed to.',
        ),
      }),
      body: documentInput,
      answer: plannedSchema,
      problems: ['confirmation_needed'],
      run: (input) => putConfig(input, dependencies),
    }),
  ];
}

interface ConfigRequest extends Pick<OperationInput, 'by' | 'ifMatch'> {
  readonly query: { readonly dryRun: boolean; readonly prune: boolean; readonly confirm: boolean };
  readonly body: z.output<typeof documentInput>;
}

/**
 * Plans, or makes the records what the body says. The tag of a plan is that of the records it was made for.
 */
async function putConfig(
  { query, body, by, ifMatch }: ConfigRequest,
  dependencies: ConfigOperationDependencies,
): Promise<TaggedResult<Described<z.output<typeof plannedSchema>>>> {
  const { settings, clock, types } = dependencies;
  let planned: PlannedChanges = { changes: [], kept: [], disconnects: [] };
  const first = desiredRecords(body, settings.now(), { ...dependencies, prune: query.prune });
  // Before the change, because other changes would wait while names are looked up.
  const found = await checkEndpoints(destinationsWithPaths(first), withoutRemoved(first, settings.now()), {
    ...dependencies,
    alerts: alertsWithPaths(first),
    isWhole: true,
  });
  let tag = '';
  await settings.change(async (now) => {
    tag = tagOf(now, types);
    if (ifMatch !== undefined && !matchesEtag(ifMatch, tag)) throw new Problem('changed_meanwhile');
    const wish = desiredRecords(body, now, { ...dependencies, prune: query.prune });
    const changes = diffRecords(wish, now, { by, clock, types });
    const cut = disconnectedBy(wish, now);
    planned = {
      changes: planRecords(wish, now, { by, clock, types }).filter(isOfFile).map(changeView),
      kept: keptRecords(body, now, query.prune),
      disconnects: await pendingDeliveries(cut, dependencies),
    };
    if (query.dryRun) return { sources: [], destinations: [] };
    if (!query.confirm) await refuseDisconnecting(cut, dependencies);
    return changes;
  });
  const value = { applied: !query.dryRun, ...planned, warnings: found };
  return new TaggedResult(value, query.dryRun ? tag : tagOf(settings.now(), types));
}

interface PlannedChanges {
  readonly changes: readonly ReturnType<typeof changeView>[];
  readonly kept: readonly string[];
  readonly disconnects: readonly { readonly destination: string; readonly owed: number }[];
}

/** Records are sorted by name, so that two servers with the same records give the same answer. */
function exportRecords(
  { sources, destinations, audiences, traits, alerts }: SettingsSnapshot,
  types: DestinationTypes,
  role: Role | undefined,
) {
  return {
    sources: sortByName(sources.filter(({ system }) => !system).map((one) => sourceViewFor(role, one))),
    destinations: sortByName(destinations.map((one) => destinationView(one, types))),
    audiences: sortByName(audiences.map(computationView)),
    traits: sortByName(traits.map(computationView)),
    alerts: sortByName(alerts.map(alertView)),
  };
}

/** The ETag of all records. The versions tell records apart that only a secret tells from what they were. */
function tagOf(now: SettingsSnapshot, types: DestinationTypes): string {
  const versions = [...now.destinations, ...now.audiences, ...now.traits].map(({ name, version }) => [
    name,
    version,
  ]);
  return etagOf([exportRecords(now, types, 'admin'), versions.sort()]);
}

function sortByName<Of extends { readonly name: string }>(records: readonly Of[]): Of[] {
  return [...records].sort((one, other) => (one.name < other.name ? -1 : 1));
}

/** Checks the file together with the stored records that it does not name and that stay. */
function desiredRecords(
  document: z.output<typeof documentInput>,
  now: SettingsSnapshot,
  {
    check,
    types,
    prune,
  }: Pick<DestinationOperationDependencies, 'check' | 'types'> & { readonly prune: boolean },
): DesiredRecords {
  const stored = new Map(now.destinations.map((one) => [one.name, one]));
  const destinations = document.destinations.map((one) =>
    unmaskSecrets(one, stored.get(String(one['name'])), types),
  );
  const alerts = document.alerts.map((one) =>
    unmaskAlert(
      one,
      now.alerts.find(({ name }) => name === one['name']),
    ),
  );
  const checked = check({ ...document, destinations, alerts }, prune ? keptByPruning(document, now) : now);
  if ('faults' in checked) {
    throw new Problem('invalid_parameters', { errors: checked.faults.map(bodyFault), isCut: checked.isCut });
  }
  return { ...checked, removed: prune ? unnamedRecords(document, now) : [] };
}

/** The stored records that a document is checked beside when it removes all that it does not name. */
function keptByPruning(
  document: Pick<z.output<typeof documentInput>, 'destinations'>,
  now: SettingsSnapshot,
): SettingsSnapshot {
  const named = new Set(document.destinations.map((one) => one['name']));
  const sources = now.sources.filter(({ system }) => system);
  const destinations = now.destinations.filter(({ name }) => named.has(name));
  return { ...now, sources, destinations, audiences: [], traits: [] };
}

/** The destinations beside which those of the body are looked at, and all alerts. */
function withoutRemoved(
  { removed = [] }: DesiredRecords,
  { destinations, alerts }: SettingsSnapshot,
): Pick<SettingsSnapshot, 'destinations' | 'alerts'> {
  const gone = new Set(removed.flatMap(({ kind, name }) => (kind === 'destination' ? [name] : [])));
  return { destinations: destinations.filter(({ name }) => !gone.has(name)), alerts };
}

/** The destinations in the order of the body, each with its path. */
function destinationsWithPaths({ destinations = [] }: DesiredRecords): DestinationAtPath[] {
  return destinations.map((record, place) => ({ path: `body.destinations[${place}]`, record }));
}

function alertsWithPaths({ alerts = [] }: DesiredRecords): AlertAtPath[] {
  return alerts.map((record, place) => ({ path: `body.alerts[${place}]`, record }));
}

/** A fault of the file with its path in the body. */
function bodyFault({ path, message, ...place }: Fault): Fault {
  return {
    ...place,
    path: path === '' ? 'body' : `body.${path}`,
    message: message.replace(/ of the source ".*"$/s, '$&, which is not named here and stays'),
  };
}

/** The source of audiences is none that a file could name. */
function unnamedRecords(
  { sources, destinations, audiences, traits, alerts }: z.output<typeof documentInput>,
  now: SettingsSnapshot,
): RecordName[] {
  const unnamed = (
    kind: RecordKind,
    stored: readonly { readonly name: string }[],
    listed: readonly JsonObject[],
  ) => {
    const named = new Set(listed.map((one) => one['name']));
    return stored.flatMap(({ name }) => (named.has(name) ? [] : [{ kind, name }]));
  };
  const ownSources = now.sources.filter(({ system }) => !system);
  return [
    ...unnamed('source', ownSources, sources),
    ...unnamed('destination', now.destinations, destinations),
    ...unnamed('audience', now.audiences, audiences),
    ...unnamed('trait', now.traits, traits),
    ...unnamed('alert', now.alerts, alerts),
  ];
}

/**
 * Stored records that the file does not name and that stay. The answer lists them, because leaving out does
 * not remove.
 */
function keptRecords(body: z.output<typeof documentInput>, now: SettingsSnapshot, prune: boolean): string[] {
  if (prune) return [];
  return unnamedRecords(body, now).map(({ kind, name }) => `${kind} ${name}`);
}

/** Destinations that the file removes or disables. */
function disconnectedBy({ destinations = [], removed = [] }: DesiredRecords, now: SettingsSnapshot) {
  const gone = new Set(removed.flatMap(({ kind, name }) => (kind === 'destination' ? [name] : [])));
  const disabled = new Set(destinations.flatMap(({ name, enabled }) => (enabled ? [] : [name])));
  return now.destinations.filter(({ name, enabled }) => gone.has(name) || (enabled && disabled.has(name)));
}

/** The destinations that have pending deliveries. A dry run shows them before the change is refused. */
async function pendingDeliveries(
  destinations: readonly Destination[],
  { pending }: Pick<DestinationOperationDependencies, 'pending'>,
) {
  if (destinations.length === 0) return [];
  const pendingOf = await pending();
  const owed = destinations.map((one) => ({ destination: one.name, owed: pendingOf(one) }));
  return owed.filter(({ owed }) => owed > 0);
}

/** The source that comes with the first audience is no part of a file. */
function isOfFile({ kind, name }: AuditEntry): boolean {
  return kind !== 'source' || name !== AUDIENCES_SOURCE.name;
}

function changeView({ action, kind, name, before, after }: AuditEntry) {
  return {
    action,
    // A configuration file has no replays and no splits.
    kind: kind as Exclude<RecordKind, 'replay' | 'regulation' | 'split'>,
    name,
    ...(isObject(before) ? { before } : {}),
    ...(isObject(after) ? { after } : {}),
  };
}
