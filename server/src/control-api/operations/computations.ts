import * as z from 'zod';
import {
  type AudienceDefinition,
  type Computation,
  computationIdOf,
  type TraitDefinition,
} from '../../model/definition.ts';
import type { Destination } from '../../model/destination.ts';
import { defined, type JsonObject } from '../../model/json.ts';
import { destinationOfLane } from '../../model/lane.ts';
import { type Duration, isoTime } from '../../model/time.ts';
import type { ReplayProgress } from '../../ports/delivery-queue.ts';
import { StorageError } from '../../ports/event-log.ts';
import type { SettingsSnapshot } from '../../ports/settings-store.ts';
import type { HistoryView } from '../../ports/store-view.ts';
import type { ComputationStatus, MembersPage, Users, UsersStatus } from '../../ports/users.ts';
import { diffRecords } from '../changes.ts';
import {
  type ApiOperation,
  type Described,
  DryRunResult,
  defineOperation,
  type OperationInput,
  TaggedResult,
} from '../operation.ts';
import { decodeCursor, encodeCursor, pageByName, pageQuery, pageSchema } from '../pagination.ts';
import type { PreviewDesk } from '../preview-desk.ts';
import { type Fault, Problem } from '../problem.ts';
import {
  checkRecord,
  etagOf,
  mergePatch,
  type RecordDependencies,
  recordInput,
  refuseStale,
  warningsSchema,
} from '../records.ts';
import { unknownName } from '../unknown-name.ts';
import { computationView, toJson } from '../views.ts';
import { flagParameter } from './destinations.ts';
import { nameWarning, textWarning } from './preview-warnings.ts';
import { refuseRenaming } from './sources.ts';

export interface ComputationOperationDependencies extends RecordDependencies {
  readonly users: Pick<Users, 'members' | 'preview' | 'repeat' | 'status'>;
  readonly previews: PreviewDesk;
  readonly history: Pick<HistoryView, 'pendingOf'>;
  /** The audiences and computed traits whose definitions mention this one. */
  readonly mentionsOf: (computation: Computation, now: SettingsSnapshot) => readonly Computation[];
  /** The longest time of an event in a definition; undefined when none is limited. */
  readonly longestWindow: (definition: Computation['definition']) => Duration | undefined;
  /** How long events are kept. */
  readonly retention: Duration;
}

/** The differences between audiences and computed traits. */
interface Variety {
  readonly kind: Computation['kind'];
  /** Of the paths, and of the lists of a configuration file. */
  readonly list: 'audiences' | 'traits';
  readonly noun: string;
  /** With its article. */
  readonly one: string;
}

const AUDIENCES: Variety = { kind: 'audience', list: 'audiences', noun: 'audience', one: 'an audience' };
const TRAITS: Variety = { kind: 'trait', list: 'traits', noun: 'computed trait', one: 'a computed trait' };

const computationSchema = z.object({
  name: z.string(),
  key: z.string().meta({ description: 'The name of the trait that destinations get; never changes.' }),
  definition: z.string().meta({ description: 'The text form.' }),
  json: z.looseObject({}).meta({ description: 'The same as JSON.' }),
  destinations: z.array(z.string()),
  includeAnonymous: z.boolean().exactOptional().meta({ description: 'Of audiences.' }),
  enabled: z.boolean(),
  state: z.enum(['preparing', 'computing', 'live', 'disabled', 'failed']),
  reason: z.string().exactOptional().meta({ description: 'Why it failed or waits, with what to do.' }),
  members: z.int().meta({ description: 'Users who are members, or who have a value.' }),
  progress: z.number().meta({ description: 'Share of the work that is done; 1 when live.' }),
  eventsSince: z.string().exactOptional().meta({ description: 'Earlier events could not count.' }),
  sync: z
    .array(z.object({ destination: z.string(), pending: z.int() }))
    .meta({ description: 'How many of its events each destination is still owed, without replays.' }),
});

type ComputationAnswer = Described<z.output<typeof computationSchema>>;

/** Keys of answers that a request may send back and that change nothing. */
const ANSWERED_ONLY = ['key', 'json', 'state', 'reason', 'members', 'progress', 'eventsSince', 'sync'];

const memberSchema = z.object({
  userId: z.string().exactOptional().meta({ description: 'Absent for a profile with anonymous ids alone.' }),
  anonymousId: z
    .string()
    .exactOptional()
    .meta({ description: 'Of such a profile: the one that destinations are told.' }),
  since: z.string(),
  value: z.unknown().meta({ description: 'true for a member of an audience, or the value of the trait.' }),
});

const removalSchema = z.object({
  members: z.int().meta({ description: 'Users who are members, or who have a value.' }),
  destinations: z.array(z.string()).meta({ description: 'Those that go on knowing them.' }),
  message: z.string().meta({ description: 'What becomes of them, and what to do when that is not wanted.' }),
});

const previewInput = z.strictObject({
  definition: z
    .union([z.string(), z.record(z.string(), z.unknown())], 'must be the text or the JSON of a definition')
    .meta({ description: 'Text, or the same as JSON.' }),
  name: z.string().exactOptional().meta({ description: 'The one that it would replace.' }),
  includeAnonymous: z.boolean('must be true or false').exactOptional(),
});

const previewSchema = z.object({
  definition: z.string().meta({ description: 'The text form of what was computed.' }),
  json: z.looseObject({}).meta({ description: 'The same as JSON.' }),
  members: z.int(),
  sample: z.array(z.string()).meta({ description: 'A few userIds.' }),
  enters: z.int().meta({ description: 'Users who would enter, compared with the one it replaces.' }),
  leaves: z.int(),
  eventsSince: z.string().exactOptional().meta({ description: 'Earlier events cannot count.' }),
  computedAt: z
    .string()
    .meta({ description: 'When it was begun: an answer that took long is given again for a minute.' }),
  complete: z
    .boolean()
    .meta({ description: 'Whether every event counts that was stored when it was asked for.' }),
  eventsBehind: z
    .int()
    .exactOptional()
    .meta({ description: 'How many do not count yet, because profiles are behind.' }),
  warnings: warningsSchema,
});

const syncInput = z.strictObject({
  destination: z
    .string('must be the name of a destination')
    .meta({ description: 'One that it is connected to.' }),
  dryRun: z.boolean('must be true or false').default(false),
});

const syncSchema = z.object({
  destination: z.string(),
  members: z
    .int()
    .meta({ description: 'Users who are members now, or have a value: each of them is told once more.' }),
});

/** spec/contract.md, "Operations on audiences and computed traits". */
export function computationOperations(dependencies: ComputationOperationDependencies): ApiOperation[] {
  return [AUDIENCES, TRAITS].flatMap((variety) => [
    ...recordOperations(variety, dependencies),
    previewOperation(variety, dependencies),
    membersOperation(variety, dependencies),
    syncOperation(variety, dependencies),
  ]);
}

function recordOperations(variety: Variety, dependencies: ComputationOperationDependencies): ApiOperation[] {
  const { list, noun, one } = variety;
  const { settings, schemas } = dependencies;
  const input = recordInput.meta({
    description: `As in the configuration file, \`${list}[]\`: spec/config.schema.json. The definition is text or JSON.`,
  });
  return [
    defineOperation({
      method: 'GET',
      path: list,
      role: 'viewer',
      summary: `Lists the ${noun}s by name`,
      query: z.object(pageQuery),
      answer: pageSchema(computationSchema),
      run: async ({ query }) => {
        const { data, next } = pageByName<Computation>(settings.now()[list], query);
        return { data: await answersFor(data, dependencies), next };
      },
    }),
    defineOperation({
      method: 'POST',
      path: list,
      role: 'editor',
      status: 201,
      sharesAnswer: true,
      isTagged: true,
      summary: `Creates ${one}; it counts the stored events, and then tells its destinations`,
      body: input,
      described: schemas[variety.kind],
      answer: computationSchema,
      problems: ['name_taken'],
      run: ({ body, by }) => createComputation(variety, { body, by }, dependencies),
    }),
    defineOperation({
      method: 'GET',
      path: `${list}/:name`,
      role: 'viewer',
      isTagged: true,
      summary: `Shows ${one}, and how far it is`,
      answer: computationSchema,
      problems: ['unknown_name'],
      run: async ({ names }) =>
        tagged(computationByName(variety, names['name'], settings.now()), dependencies),
    }),
    defineOperation({
      method: 'PATCH',
      path: `${list}/:name`,
      role: 'editor',
      isTagged: true,
      summary: `Changes ${one} by a JSON merge patch; another definition counts the stored events anew`,
      body: input,
      answer: computationSchema,
      problems: ['unknown_name'],
      run: (asked) => patchComputation(variety, asked, dependencies),
    }),
    defineOperation({
      method: 'DELETE',
      path: `${list}/:name`,
      role: 'editor',
      isTagged: true,
      summary: `Removes ${one} that no other definition mentions`,
      query: z.object({ dryRun: flagParameter.describe('Only says what would become of its members.') }),
      dryRun: removalSchema,
      problems: ['unknown_name', 'still_mentioned'],
      run: (asked) => removeComputation(variety, asked, dependencies),
    }),
  ];
}

function previewOperation(variety: Variety, dependencies: ComputationOperationDependencies): ApiOperation {
  return defineOperation({
    method: 'POST',
    path: `${variety.list}/preview`,
    role: 'editor',
    isInMemory: true,
    summary: 'Computes a definition over the stored events, without keeping or sending anything',
    body: previewInput,
    answer: previewSchema,
    problems: ['preview_running', 'profiles_unavailable'],
    run: async ({ body, by, client }) => {
      const now = dependencies.settings.now();
      const replaces: Computation | undefined = now[variety.list].find(({ name }) => name === body.name);
      const anonymous =
        body.includeAnonymous ?? (replaces?.kind === 'audience' ? replaces.includeAnonymous : false);
      const record = checkRecord(
        variety.list,
        {
          ...(replaces && toJson(computationView(replaces))),
          name: body.name ?? unusedName(now),
          definition: body.definition as string,
          ...(variety.kind === 'audience' ? { includeAnonymous: anonymous } : {}),
        },
        { now, check: dependencies.check },
      );
      const { definition, text } = record;
      const request = {
        definition,
        includeAnonymous: anonymous,
        ...defined({ replaces }),
      };
      const preview = await dependencies.previews.preview(
        JSON.stringify(request),
        { by, gone: client.gone },
        () => fromUsers(() => dependencies.users.preview(request, client.gone)),
      );
      const {
        members,
        sample,
        enters,
        leaves,
        eventsSince,
        eventsBehind,
        computedAt,
        textForNumbers,
        unknownNames,
      } = preview;
      return {
        ...{ definition: text, json: definition, members, sample, enters, leaves },
        ...defined({ eventsSince: isoTime(eventsSince) }),
        computedAt: isoTime(computedAt),
        complete: eventsBehind === 0,
        ...defined({ eventsBehind: eventsBehind || undefined }),
        warnings: [
          ...windowWarnings(definition, dependencies),
          ...unknownNames.map(nameWarning),
          ...textForNumbers.map(textWarning),
        ],
      };
    },
  });
}

function membersOperation(
  variety: Variety,
  { settings, users }: ComputationOperationDependencies,
): ApiOperation {
  return defineOperation({
    method: 'GET',
    path: `${variety.list}/:name/members`,
    role: 'viewer',
    // A computed trait is made of what events hold.
    showsBodies: variety.kind === 'trait',
    isInMemory: true,
    summary:
      variety.kind === 'audience' ? 'Lists the members of an audience' : 'Lists the users who have a value',
    query: z.object(pageQuery),
    answer: pageSchema(memberSchema),
    problems: ['unknown_name', 'profiles_unavailable'],
    run: async ({ names, query: { limit, cursor } }) => {
      const { id } = computationByName(variety, names['name'], settings.now());
      const from = decodeCursor(cursor, { id });
      const page: MembersPage = await fromUsers(() => users.members(id, limit, from));
      const data = page.members.map(({ since, ...member }) => ({ ...member, since: isoTime(since) }));
      return { data, next: page.next === undefined ? null : encodeCursor(page.next, { id }) };
    },
  });
}

function syncOperation(
  variety: Variety,
  { settings, users }: ComputationOperationDependencies,
): ApiOperation {
  return defineOperation({
    method: 'POST',
    path: `${variety.list}/:name/sync`,
    role: 'editor',
    summary:
      variety.kind === 'audience'
        ? 'Tells a destination every member again, and who it has to hear is none'
        : 'Tells a destination the value of every user again',
    body: syncInput,
    answer: syncSchema,
    dryRun: syncSchema,
    problems: ['unknown_name', 'profiles_unavailable'],
    run: async ({ names, body: { destination, dryRun } }) => {
      const now = settings.now();
      const computation = computationByName(variety, names['name'], now);
      const known = (await statusOf(users)).computations.find(({ id }) => id === computation.id);
      refuseSync(destination, { computation, now, known });
      const answer = { destination, members: known?.members ?? 0 };
      if (dryRun) return new DryRunResult(answer);
      if (!(await fromUsers(() => users.repeat(computation.id, destination)))) throw notInForce();
      return answer;
    },
  });
}

/** Says why a destination would hear nothing, or hears everything anyway. */
function refuseSync(
  destination: string,
  terms: {
    readonly computation: Computation;
    readonly now: SettingsSnapshot;
    readonly known: ComputationStatus | undefined;
  },
): void {
  const { computation, now, known } = terms;
  const found = now.destinations.find(({ name }) => name === destination);
  if (found === undefined) throw unknownName(destination, 'destination', now.destinations, 'destinations');
  const refuse = (message: string) =>
    new Problem('invalid_parameters', { errors: [{ path: 'body.destination', message }] });
  const name = JSON.stringify(destination);
  if (!computation.destinations.includes(destination))
    throw refuse(`${name} is not connected: name it in destinations, and it is told every member`);
  if (!found.enabled) throw refuse(`${name} is disabled: it hears what it has missed when it is enabled`);
  if (!computation.enabled || known === undefined || known.state === 'failed' || known.state === 'preparing')
    throw notInForce();
}

function notInForce(): Problem {
  const message =
    'it is not live, because it is disabled, has failed or is being prepared: look at its state; when it comes into force, each of its ' +
    'destinations is told every member';
  return new Problem('invalid_parameters', { errors: [{ path: 'name', message }] });
}

async function createComputation(
  variety: Variety,
  { body, by }: { readonly body: JsonObject; readonly by: string },
  dependencies: ComputationOperationDependencies,
): Promise<TaggedResult<ComputationAnswer>> {
  const { settings, check, clock, types } = dependencies;
  const { list } = variety;
  const wanted = withoutAnswered(body);
  const now = await settings.change((before) => {
    if (before[list].some(({ name }) => name === wanted['name'])) throw new Problem('name_taken');
    const record = checkRecord(list, wanted, { now: before, check });
    return diffRecords({ [list]: [record] }, before, { by, clock, types });
  });
  return await tagged(computationByName(variety, String(wanted['name']), now), dependencies);
}

async function patchComputation(
  variety: Variety,
  {
    names,
    by,
    ifMatch,
    body,
  }: Pick<OperationInput, 'names' | 'by' | 'ifMatch'> & { readonly body: JsonObject },
  dependencies: ComputationOperationDependencies,
): Promise<TaggedResult<ComputationAnswer>> {
  const { settings, check, clock, types } = dependencies;
  const { kind, list } = variety;
  const name = names['name'] ?? '';
  const patch = withoutAnswered(body);
  const now = await settings.change(async (before) => {
    const stored = computationByName(variety, name, before);
    await refuseStale({ ifMatch, tag: tagOf(stored) }, { kind, name }, dependencies);
    const merged = {
      ...mergePatch(toJson(computationView(stored)), patch),
      // A definition is replaced as a whole, also by JSON.
      ...defined({ definition: patch['definition'] }),
    };
    refuseRenaming(name, merged);
    const record = checkRecord(list, merged, { now: before, check });
    return diffRecords({ [list]: [record] }, before, { by, clock, types });
  });
  return await tagged(computationByName(variety, name, now), dependencies);
}

async function removeComputation(
  variety: Variety,
  {
    names,
    by,
    ifMatch,
    query,
  }: Pick<OperationInput, 'names' | 'by' | 'ifMatch'> & { readonly query: { readonly dryRun: boolean } },
  dependencies: ComputationOperationDependencies,
): Promise<DryRunResult<Removal> | undefined> {
  const { settings, clock, types, mentionsOf, users } = dependencies;
  const { kind } = variety;
  const name = names['name'] ?? '';
  const effect = removalEffect(computationByName(variety, name, settings.now()), await statusOf(users));
  await settings.change(async (now) => {
    const stored = computationByName(variety, name, now);
    await refuseStale({ ifMatch, tag: tagOf(stored) }, { kind, name }, dependencies);
    const errors = mentionsOf(stored, now).map((by) => ({
      path: `${by.kind === 'audience' ? 'audiences' : 'traits'} ${JSON.stringify(by.name)}`,
      message: 'mentions it in its definition',
    }));
    if (errors.length > 0) throw new Problem('still_mentioned', { errors });
    return diffRecords({ removed: query.dryRun ? [] : [{ kind, name }] }, now, { by, clock, types });
  });
  return query.dryRun ? new DryRunResult(effect) : undefined;
}

type Removal = Described<z.output<typeof removalSchema>>;

/** The effect of removing an audience or a computed trait on its members. */
function removalEffect({ id, kind, destinations }: Computation, { computations }: UsersStatus): Removal {
  const members = computations.find((one) => one.id === id)?.members ?? 0;
  const users = members === 1 ? '1 user' : `${members} users`;
  const [known, way] =
    kind === 'audience'
      ? ['as members', 'a condition that nobody meets']
      : ['with the last value', 'a definition that has no value'];
  const message =
    destinations.length === 0 || members === 0
      ? 'no destination knows anybody by it'
      : `its destinations are told nothing, and go on knowing ${users} ${known}: to tell them otherwise, give it ${way} before, and ` +
        'remove it when it is live and nothing is pending';
  return { members, destinations: [...destinations], message };
}

/** Drops what only answers have, so that an answer can be sent back as it came. */
function withoutAnswered(body: JsonObject): JsonObject {
  return Object.fromEntries(Object.entries(body).filter(([key]) => !ANSWERED_ONLY.includes(key)));
}

function computationByName(
  { list, noun }: Variety,
  name: string | undefined,
  now: SettingsSnapshot,
): AudienceDefinition | TraitDefinition {
  const found: Computation | undefined = now[list].find((one) => one.name === name);
  if (found !== undefined) return found;
  throw unknownName(name ?? '', noun, now[list], list);
}

/** A name that no record has and whose key is free. */
function unusedName({ audiences, traits }: SettingsSnapshot): string {
  const keys = new Set([...audiences, ...traits].map(({ key }) => key));
  let nth = 0;
  while (keys.has(`preview_${nth}`)) nth++;
  return `preview ${nth}`;
}

function tagOf(computation: Computation): string {
  return etagOf(computationView(computation), computation.version);
}

async function tagged(
  computation: Computation,
  dependencies: ComputationOperationDependencies,
): Promise<TaggedResult<ComputationAnswer>> {
  const [answer] = await answersFor([computation], dependencies);
  return new TaggedResult(answer!, tagOf(computation));
}

/** The computations with their states; asks the users thread and the ledger once. */
async function answersFor(
  computations: readonly Computation[],
  { users, history, settings }: ComputationOperationDependencies,
): Promise<ComputationAnswer[]> {
  if (computations.length === 0) return [];
  const [status, pending] = await Promise.all([
    statusOf(users),
    history.pendingOf(computations.map(computationIdOf)),
  ]);
  const states = new Map(status.computations.map((one) => [one.id, one]));
  const destinations = new Map(settings.now().destinations.map((one) => [one.name, one]));
  return computations.map((computation, nth) => {
    const { key, definition } = computation;
    const sync = computation.destinations.flatMap((name) => {
      const destination = destinations.get(name);
      if (destination === undefined) return [];
      return [{ destination: name, pending: pendingFor(destination, pending[nth]) }];
    });
    const state = stateOf(computation, states.get(computation.id), status);
    const { name, definition: text, ...shown } = computationView(computation);
    const json = JSON.parse(JSON.stringify(definition)) as JsonObject;
    return { ...{ name, key, definition: text, json }, ...shown, ...state, sync };
  });
}

/** With `success: each` every endpoint of a destination is owed an event by itself. */
function pendingFor({ id }: Destination, byLane: ReplayProgress['pending'] = new Map()): number {
  return [...byLane].reduce((sum, [lane, n]) => (destinationOfLane(lane) === id ? sum + n : sum), 0);
}

type ShownState = Pick<ComputationAnswer, 'state' | 'reason' | 'members' | 'progress' | 'eventsSince'>;

function stateOf(
  { enabled }: Computation,
  known: ComputationStatus | undefined,
  users: UsersStatus,
): ShownState {
  if (known !== undefined) {
    const { state, reason, members, progress, eventsSince } = known;
    return {
      ...{ state, members, progress },
      ...defined({ reason, eventsSince: isoTime(eventsSince) }),
    };
  }
  if (!enabled) return { state: 'disabled', members: 0, progress: 0 };
  if (users.state === 'failed')
    return { state: 'failed', reason: users.reason ?? 'profiles stand still', members: 0, progress: 0 };
  return { state: 'preparing', members: 0, progress: 0 };
}

async function statusOf(users: Pick<Users, 'status'>): Promise<UsersStatus> {
  try {
    return await users.status();
  } catch (error) {
    if (!(error instanceof StorageError)) throw error;
    const none = { profiles: 0, bytes: 0, behind: 0, lag: 0, computations: [] };
    return { state: 'failed', reason: error.reason, ...none };
  }
}

/** An answer of the users thread. That it cannot answer is a problem with its reason. */
async function fromUsers<Answer>(ask: () => Promise<Answer>): Promise<Answer> {
  try {
    return await ask();
  } catch (error) {
    if (!(error instanceof StorageError)) throw error;
    throw new Problem('profiles_unavailable', { hint: `The reason: ${error.reason}.` });
  }
}

function windowWarnings(
  definition: Computation['definition'],
  { longestWindow, retention }: Pick<ComputationOperationDependencies, 'longestWindow' | 'retention'>,
): Fault[] {
  const longest = longestWindow(definition);
  if (longest === undefined || longest <= retention) return [];
  const message =
    'has a longer time than events are kept (retention.events): a new definition counts the stored events only, and from then on all';
  return [{ path: 'body.definition', message }];
}
