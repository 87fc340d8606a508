import type { DescribedOperation } from './document.ts';
import { ADMIN, basic, bearer, GUESSER, type RequestPlan, SLOW, type World } from './world.ts';

type Recipe = (world: World) => RequestPlan | Promise<RequestPlan>;

/** Overrides the token that every other request carries. */
const NOBODY = { authorization: '' };

const TYPE = 'webhooks';
const settings = ({ receiver }: World) => ({ endpoints: [{ url: receiver.url }] });

/**
 * How to get at the answers of an operation that do not come by themselves, by its `operationId`. `done` is a
 * request that succeeds, each time it is made; the others are error codes (of the control API) or statuses
 * (of the receiving API). What every operation can answer is in `GENERAL`. A new operation needs `done` where
 * it takes a body or where the names below do not fit.
 */
const RECIPES: Readonly<Record<string, Readonly<Record<string, Recipe>>>> = {
  postSession: {
    done: () => ({ headers: NOBODY, body: { token: ADMIN } }),
    token_invalid: () => ({ headers: NOBODY, body: { token: 'wrong' }, from: wrongAddress() }),
    too_many_failed_sign_ins: () => ({ headers: NOBODY, body: { token: 'wrong' }, from: GUESSER }),
    cross_site_request: () => ({
      headers: { ...NOBODY, 'sec-fetch-site': 'cross-site' },
      body: { token: ADMIN },
    }),
    outside_token: async (world) => ({ headers: NOBODY, body: { token: await world.limited() } }),
    token_expired: async (world) => ({ headers: NOBODY, body: { token: await world.expired() } }),
    role_too_low: async (world) => ({ headers: NOBODY, body: { token: await world.tokenOf('metrics') } }),
    sign_in_code_used: () => ({ headers: NOBODY, body: { code: 'used' } }),
  },
  postSources: {
    done: (world) => ({ body: { name: world.fresh('source') } }),
    name_taken: () => ({ body: { name: 'website' } }),
  },
  patchSourcesName: {
    done: async (world) => ({ names: { name: await world.source() }, body: { mode: 'strict' } }),
    system_record: () => ({ names: { name: 'audiences' }, body: { mode: 'strict' } }),
  },
  deleteSourcesName: {
    done: async (world) => ({ names: { name: await world.source() } }),
    system_record: () => ({ names: { name: 'audiences' } }),
  },
  postAudiences: {
    done: (world) => ({ body: { name: world.fresh('audience'), definition: "group('g')" } }),
    name_taken: () => ({ body: { name: 'buyers', definition: "group('g')" } }),
  },
  patchAudiencesName: {
    done: async (world) => ({ names: { name: await world.audience() }, body: { enabled: false } }),
  },
  deleteAudiencesName: {
    done: async (world) => ({ names: { name: await world.audience() } }),
    '200': async (world) => ({ names: { name: await world.audience() }, query: { dryRun: 'true' } }),
    still_mentioned: () => ({ names: { name: 'buyers' } }),
  },
  postAudiencesPreview: { done: () => ({ body: { definition: "event('Order Placed')", name: 'buyers' } }) },
  postTraits: {
    done: (world) => ({ body: { name: world.fresh('trait'), definition: "page('Home').count()" } }),
    name_taken: () => ({ body: { name: 'orders', definition: "page('Home').count()" } }),
  },
  patchTraitsName: {
    done: async (world) => ({ names: { name: await world.trait() }, body: { enabled: false } }),
  },
  deleteTraitsName: {
    done: async (world) => ({ names: { name: await world.trait() } }),
    '200': async (world) => ({ names: { name: await world.trait() }, query: { dryRun: 'true' } }),
    still_mentioned: () => ({ names: { name: 'orders' } }),
  },
  postTraitsPreview: { done: () => ({ body: { definition: "event('Order Placed').count()" } }) },
  postAlerts: {
    done: (world) => ({
      body: { name: world.fresh('alert'), type: 'webhook', settings: { url: world.receiver.url } },
    }),
    name_taken: async (world) => ({
      body: { name: await world.alert(), type: 'webhook', settings: { url: world.receiver.url } },
    }),
  },
  getAlertsName: { done: async (world) => ({ names: { name: await world.alert() } }) },
  patchAlertsName: {
    done: async (world) => ({ names: { name: await world.alert() }, body: { after: '5m' } }),
  },
  deleteAlertsName: { done: async (world) => ({ names: { name: await world.alert() } }) },
  postAlertsNameTest: {
    done: async (world) => ({ names: { name: await world.alert() } }),
    too_many_tests: async (world) => {
      const name = await world.alert();
      const test = { method: 'POST', path: `/api/v1/alerts/${name}/test` };
      while ((await world.send(test, { headers: bearer(ADMIN) })).status !== 429);
      return { names: { name } };
    },
  },
  postDestinations: {
    done: (world) => ({
      body: { name: world.fresh('destination'), type: TYPE, sources: [], settings: settings(world) },
    }),
    name_taken: (world) => ({ body: { name: 'crm', type: TYPE, sources: [], settings: settings(world) } }),
  },
  patchDestinationsName: {
    done: async (world) => ({
      names: { name: await world.destination() },
      body: { settings: { format: 'canonical' } },
    }),
  },
  deleteDestinationsName: {
    done: async (world) => ({ names: { name: await world.destination() } }),
    confirmation_needed: async (world) => {
      await world.event();
      return { names: { name: 'down' } };
    },
  },
  postDestinationsNamePause: { done: async (world) => ({ names: { name: await world.destination() } }) },
  postDestinationsNameResume: {
    done: async (world) => {
      const name = await world.destination();
      await world.api('POST', `destinations/${name}/pause`);
      return { names: { name } };
    },
  },
  postDestinationsNameDisable: { done: async (world) => ({ names: { name: await world.destination() } }) },
  postDestinationsNameEnable: { done: async (world) => ({ names: { name: await world.destination() } }) },
  postDestinationsNameTest: { done: () => ({ names: { name: 'crm' }, body: { type: 'identify' } }) },
  getEventsMessageId: { done: async (world) => ({ names: { messageId: await world.event() } }) },
  getProfilesUserId: {
    done: async (world) => ({ names: { userId: await world.profile() } }),
    unknown_user: () => ({ names: { userId: 'nobody' } }),
  },
  getProfiles: {
    done: async (world) => {
      await world.profile();
      return { query: { anonymousId: 'a-profile' } };
    },
    unknown_user: () => ({ query: { anonymousId: 'nobody' } }),
  },
  postProfilesRebuild: {
    done: () => ({ body: { confirm: true } }),
  },
  getDeliveries: {
    done: () => ({ query: { destination: 'crm', state: 'dead' } }),
    unknown_name: () => ({ query: { destination: 'nobody', state: 'dead' } }),
  },
  getDeliveriesIdRequests: {
    done: async (world) => ({ names: { id: await world.delivery() } }),
    unknown_delivery: () => ({ names: { id: '999-1' } }),
  },
  postRedeliveries: {
    done: () => ({ body: { destination: 'refusing' } }),
    unknown_name: () => ({ body: { destination: 'nobody' } }),
  },
  putConfig: {
    done: (world) => ({
      body: { sources: [{ name: world.fresh('source'), writeKeys: [world.fresh('wk')] }] },
    }),
    confirmation_needed: async (world) => {
      await world.event();
      return { query: { prune: 'true' }, body: { sources: [{ name: 'website', writeKeys: ['wk'] }] } };
    },
  },
  postTokens: {
    done: (world) => ({ body: { name: world.fresh('token'), role: 'viewer' } }),
    name_taken: async (world) => ({ body: { name: await world.token(), role: 'viewer' } }),
  },
  deleteTokensName: { done: async (world) => ({ names: { name: await world.token() } }) },
  getCompare: {
    done: async (world) => ({
      query: { a: 'website', b: await world.source(), from: '2026-01-01T00:00:00Z' },
    }),
    unknown_name: () => ({ query: { a: 'nobody', b: 'website', from: '2026-01-01T00:00:00Z' } }),
  },
  getEvents: { unknown_name: () => ({ query: { source: 'nobody' } }) },
  postReplays: {
    done: async (world) => ({ body: await replayOf(world) }),
    '200': async (world) => ({ body: { ...(await replayOf(world)), dryRun: true } }),
    unknown_name: async (world) => ({ body: { ...(await replayOf(world)), destination: 'nobody' } }),
    destination_not_enabled: async (world) => {
      const wish = await replayOf(world);
      await world.api('POST', `destinations/${wish.destination}/disable`);
      return { body: wish };
    },
  },
  postRegulations: {
    done: (world) => ({ body: { type: 'UNSUPPRESS', subjectIds: [world.fresh('user')] } }),
    '200': () => ({ body: { type: 'DELETE_ONLY', subjectIds: ['nobody'], dryRun: true } }),
  },
  getRegulationsId: {
    done: async (world) => {
      const wish = { type: 'UNSUPPRESS', subjectIds: ['nobody'] };
      return { names: { id: (await world.api<{ id: string }>('POST', 'regulations', wish)).id } };
    },
  },
  getRegulationsIdSubjects: {
    done: async (world) => {
      const wish = { type: 'UNSUPPRESS', subjectIds: ['nobody'] };
      return { names: { id: (await world.api<{ id: string }>('POST', 'regulations', wish)).id } };
    },
  },
  postAudiencesNameSync: { done: () => ({ names: { name: 'buyers' }, body: { destination: 'crm' } }) },
  postTraitsNameSync: { done: () => ({ names: { name: 'orders' }, body: { destination: 'crm' } }) },
  postSplits: {
    done: async (world) => ({
      body: { ids: [{ userId: await world.profile() }, { userId: world.fresh('user') }] },
    }),
    '200': async (world) => ({
      body: { ids: [{ userId: await world.profile() }, { userId: 'nobody' }], dryRun: true },
    }),
    unknown_user: () => ({ body: { ids: [{ userId: 'nobody' }, { anonymousId: 'nobody' }] } }),
  },
  deleteSplitsId: {
    done: async (world) => {
      const ids = [{ userId: await world.profile() }, { userId: world.fresh('user') }];
      return { names: { id: (await world.api<{ id: string }>('POST', 'splits', { ids })).id } };
    },
  },
  getSuppressionsUserId: {
    done: async (world) => {
      const userId = world.fresh('user');
      await world.api('POST', 'regulations', { type: 'SUPPRESS_ONLY', subjectIds: [userId] });
      return { names: { userId } };
    },
  },
  getReplaysId: { done: async (world) => ({ names: { id: await slowReplay(world) } }) },
  deleteReplaysId: { done: async (world) => ({ names: { id: await slowReplay(world) } }) },
  getTimeline: { unknown_name: () => ({ query: { destination: 'nobody' } }) },
  getTail: {
    unknown_name: () => ({ query: { destination: 'nobody' } }),
    bodies_not_shown: async (world) => ({
      query: { body: 'true' },
      headers: bearer(await world.withoutBodies()),
    }),
    too_many_viewers: async (world) => ({ after: await world.watchers(20) }),
  },
  postBackups: {
    done: async (world) => ({ body: { folder: await world.folder() } }),
    idempotency_key_reused: async (world) =>
      reusingKey({ body: { folder: await world.folder() }, headers: bearer(ADMIN) }, world),
  },
  getBackupsId: {
    done: async (world) => {
      const folder = await world.folder();
      const { id } = await world.api<{ id: string }>('POST', 'backups', { folder });
      return { names: { id } };
    },
  },
  pixel: {
    done: () => ({ names: { type: 'track' }, query: { writeKey: 'wk', userId: 'u1', event: 'Seen' } }),
  },
  projectSettings: { done: () => ({ names: { writeKey: 'wk' } }) },
  publicKey: {
    done: async (world) => {
      const name = await world.destination();
      await world.api('PATCH', `destinations/${name}`, { settings: { publicSignature: true } });
      const { publicKey } = await world.api<{ publicKey: { id: string } }>(
        'GET',
        `destinations/${name}/status`,
      );
      return { names: { id: publicKey.id } };
    },
    '404': () => ({ names: { id: 'none' } }),
  },
  batch: { '400': batchOfStrict },
  import: { '400': () => ({ body: { batch: 'none' } }) },
};

/** The last hour, of a destination of its own. */
async function replayOf(world: World) {
  const [from, to] = [Date.now() - 3_600_000, Date.now()].map((time) => new Date(time).toISOString());
  return { destination: await world.destination(), from, to };
}

/** One that goes on for as long as the tests do: of thousands of events, one a second. */
async function slowReplay(world: World): Promise<string> {
  const wish = { ...(await replayOf(world)), source: 'slow', rate: 1 };
  return (await world.api<{ id: string }>('POST', 'replays', wish)).id;
}

function batchOfStrict(): RequestPlan {
  return {
    headers: { authorization: basic('wk_strict') },
    body: { batch: [{ type: 'track', userId: 'u1' }] },
  };
}

/**
 * Statuses and codes that are not driven here, each with the reason.
 */
export const LEFT_OUT: Readonly<Record<string, string>> = {
  internal_error: 'an error of ours: a request that provokes it is a bug',
  '500': 'an error of ours: a request that provokes it is a bug',
  'postBackups backup_running': 'a backup of these few events is over before another can be asked for',
  'postBackups 503': 'the folder of the backup cannot be written then either, which is 422',
  'deleteSession 503': 'a token has no session, so nothing of it has to be removed',
  rebuild_loses:
    'events have to expire first, after a day at the earliest: processor.test.ts counts whom that concerns',
  split_loses: 'events have to expire first: remaking.test.ts says of whom something is lost',
  too_many_splits: 'there have to be 10,000 of them',
  no_control_api: 'a node with other roles has to be asked: node-operator.postgres.ts',
  preview_running: 'another one has to be under way just then: preview-desk.test.ts',
  profiles_unavailable: 'the users thread has to be dead or a file of it broken',
  'getProfilesUserId 503': 'profiles are read by their own thread, which may still answer or have ended',
  'getMerges 503': 'profiles are read by their own thread, which may still answer or have ended',
  'postSplits 503': 'profiles are read by their own thread, which may still answer or have ended',
  'getProfiles 503': 'profiles are read by their own thread, which may still answer or have ended',
  'postAudiencesPreview 503': 'profiles are read by their own thread, which may still answer or have ended',
  'getAudiencesNameMembers 503':
    'profiles are read by their own thread, which may still answer or have ended',
  'postTraitsPreview 503': 'profiles are read by their own thread, which may still answer or have ended',
  'getTraitsNameMembers 503': 'profiles are read by their own thread, which may still answer or have ended',
  'readyz 503': 'comes with the upkeep of the store, a minute later: full-disk.faults.ts',
};

type General = (good: RequestPlan, world: World) => RequestPlan | undefined | Promise<RequestPlan>;

/** Error answers of every operation, each made from a request that would succeed. */
const GENERAL: Readonly<Record<string, General>> = {
  token_missing: (good) => ({ ...good, headers: {} }),
  outside_token: async (good, world) => ({ ...good, headers: bearer(await world.limited()) }),
  bodies_not_shown: async (good, world) => ({ ...good, headers: bearer(await world.withoutBodies()) }),
  host_not_allowed: (good) => ({ ...good, headers: { ...good.headers, host: 'elsewhere.example' } }),
  token_invalid: (good) => ({ ...good, headers: bearer('wrong'), from: wrongAddress() }),
  token_expired: async (good, world) => ({ ...good, headers: bearer(await world.expired()) }),
  too_many_failed_sign_ins: (good) => ({ ...good, headers: bearer('wrong'), from: GUESSER }),
  session_over: (good, { session }) => ({
    ...good,
    headers: { ...session, cookie: session.cookie.replace(/=.*/, '=gone') },
  }),
  cross_site_request: (good, { session }) => ({
    ...good,
    headers: { ...session, 'sec-fetch-site': 'cross-site' },
  }),
  role_too_low: (good, { viewer }) => ({ ...good, headers: bearer(viewer) }),
  body_too_large: (good) => ({ ...good, body: 'x'.repeat(1024 * 1024 + 1) }),
  body_not_json: (good) => ({ ...good, body: '{' }),
  invalid_parameters: (good) => ({ ...good, query: { ...good.query, nonsense: '1' } }),
  unknown_name: (good) =>
    good.names === undefined
      ? undefined
      : { ...good, names: Object.fromEntries(Object.keys(good.names).map((name) => [name, 'nobody'])) },
  changed_meanwhile: (good) => ({ ...good, headers: { ...good.headers, 'if-match': '"older"' } }),
  idempotency_key_reused: reusingKey,
};

function reusingKey(good: RequestPlan, world: World): RequestPlan {
  const headers = { ...good.headers, 'idempotency-key': world.fresh('key') };
  return { ...good, headers, body: `${JSON.stringify(good.body ?? {})} `, before: { ...good, headers } };
}

let addresses = 0;
/** Another one each time, so that none of them has to wait. */
function wrongAddress(): string {
  addresses++;
  return `127.0.${1 + (addresses >> 7)}.${1 + (addresses & 127)}`;
}

/** A request that this operation grants; with a status of its own where there are several. */
export async function grantedBy(
  operation: DescribedOperation,
  world: World,
  status = 'done',
): Promise<RequestPlan> {
  const recipes = RECIPES[operation.id];
  const own = await (recipes?.[status] ?? recipes?.['done'])?.(world);
  const plan = own ?? (operation.isControl ? control(operation) : call(operation));
  const headers = operation.isControl ? bearer(ADMIN) : { authorization: basic('wk') };
  return { ...plan, headers: { ...headers, ...plan.headers } };
}

/**
 * A request that this operation answers so; nothing when nobody has said how. `good`: one that it would
 * grant, and which is granted once at most.
 */
export async function askingFor(
  answer: string,
  { operation, good }: { readonly operation: DescribedOperation; readonly good: RequestPlan },
  world: World,
): Promise<RequestPlan | undefined> {
  const own = RECIPES[operation.id]?.[answer];
  if (own !== undefined) {
    const plan = await own(world);
    return { ...plan, headers: { ...good.headers, ...plan.headers } };
  }
  if (operation.isControl) return GENERAL[answer]?.(good, world);
  return REFUSED[answer]?.(good);
}

/** Records that are there. */
function control({ path }: DescribedOperation): RequestPlan {
  if (path.includes('/destinations/{name}')) return { names: { name: 'crm' } };
  if (path.includes('/audiences/{name}')) return { names: { name: 'buyers' } };
  if (path.includes('/traits/{name}')) return { names: { name: 'orders' } };
  if (path.includes('/sources/{name}')) return { names: { name: 'website' } };
  if (path.includes('/splits/{id}')) return { names: { id: 'none' } };
  if (path.includes('/regulations/{id}')) return { names: { id: 'none' } };
  if (path.includes('{')) throw new Error(`recipes.ts does not say which record of ${path} there is`);
  return {};
}

function call({ id, body }: DescribedOperation): RequestPlan {
  if (body === undefined) return {};
  const one = { userId: 'u1', event: 'Order Placed', groupId: 'g1', previousId: 'u0' };
  const isBatch = /^(batch|import)/.test(id);
  if (id.startsWith('forwarded')) return { body: [{ type: 'track', ...one }] };
  return { body: isBatch ? { batch: [{ type: 'track', ...one }] } : one };
}

const REFUSED: Readonly<Record<string, (good: RequestPlan) => RequestPlan>> = {
  '400': (good) => ({ ...good, body: '{' }),
  '401': (good) => ({ ...good, headers: {} }),
  '429': (good) => ({ ...good, headers: { authorization: basic(SLOW) } }),
};
