import {
  type DestinationKind,
  type ExportedComputation,
  type ExportedDestination,
  type ExportedFilter,
  type ExportedFunction,
  type ExportedSource,
  type Fields,
  type FunctionInstance,
  fieldOf,
  fieldsOf,
  type Hook,
  jsonIn,
  listOf,
  type Mapping,
  type OtherThing,
  type SuppressedUser,
  type TrackingPlan,
  type Transformation,
  textOf,
  type UnreadPart,
  type Workspace,
} from './workspace.ts';

/** The things of a workspace of Segment, each as its Public API shows it. */
export interface SegmentThings {
  readonly workspace?: Fields;
  readonly sources: readonly unknown[];
  readonly destinations: readonly unknown[];
  /** With their `destinationId`. */
  readonly subscriptions: readonly unknown[];
  readonly filters: readonly unknown[];
  /** With `rules` and `sourceIds`. */
  readonly trackingPlans: readonly unknown[];
  /** By the id of the source: what its tracking plan blocks. */
  readonly sourceSettings: ReadonlyMap<string, unknown>;
  readonly functions: readonly unknown[];
  readonly functionInstances: readonly unknown[];
  readonly transformations: readonly unknown[];
  readonly audiences: readonly unknown[];
  readonly computedTraits: readonly unknown[];
  readonly suppressions: readonly unknown[];
  readonly others: readonly OtherThing[];
  readonly unread: readonly UnreadPart[];
  readonly untold: readonly string[];
}

/** Ids of kinds in the catalogue. Exports without names have only these. */
const KINDS: Readonly<Record<string, { readonly kind: DestinationKind; readonly name: string }>> = {
  '54521fdc25e721e32a72ef04': { kind: 'classic', name: 'Webhooks' },
  '614a3c7d791c91c41bae7599': { kind: 'actions', name: 'Webhooks (Actions)' },
  '66b1f528d26440823fb27af9': { kind: 'extensible', name: 'Extensible Webhook' },
};

const KIND_SLUGS: Readonly<Record<string, DestinationKind>> = {
  webhooks: 'classic',
  'actions-webhook': 'actions',
  'extensible-webhook': 'extensible',
  'actions-webhook-extensible': 'extensible',
  'actions-webhook-audiences': 'list',
  'webhook-audiences': 'list',
};

/** Their names in an integrations object, the present one first. */
const INTEGRATION_NAMES: Readonly<Partial<Record<DestinationKind, readonly string[]>>> = {
  classic: ['Webhooks'],
  actions: ['Webhooks (Actions)', 'Webhook'],
  extensible: ['Extensible Webhook'],
};

const STORAGE = /^(aws-s3|amazon-s3|s3|google-cloud-storage|gcs|azure-.*storage.*|.*data-?lakes?.*)$/;

/** Kinds of sources whose keys are in a page or an app, and kinds that run on servers. */
const CLIENT_KINDS =
  /^(javascript|project|website|analytics-js|ios|android|swift|kotlin|kotlin-android|apple|react-native|flutter|unity|xamarin|cordova|electron|roku|amp|shopify|pixel.*)$/;
const SERVER_KINDS =
  /^(node-?js|node|python|ruby|php|java|go|golang|net|\.net|csharp|c-sharp|clojure|rust|http-?api|http|object-api|server)$/;

/** The browser library, by the id of its kind: the only one that exports without names are known to have. */
const CLIENT_KIND_IDS: readonly string[] = ['IqDTy1TpoU'];

/** Makes the neutral form of a workspace of Segment. */
export function segmentWorkspace(things: SegmentThings): Workspace {
  const name = textOf(things.workspace?.['name']) ?? '';
  const functions = things.functions.map(functionOf);
  const mappings = byDestination(things.subscriptions, mappingOf);
  const filters = byDestination(things.filters, filterOf);
  const functionNames = new Set(
    functions
      .filter(({ resourceType }) => resourceType === 'DESTINATION')
      .map((one) => `${one.name} (${name})`),
  );
  const destinations = unique(things.destinations).map((raw) =>
    destinationOf(raw, { mappings, filters, functionNames }),
  );
  const id = textOf(things.workspace?.['id']);
  return {
    origin: 'segment',
    ...(id === undefined ? {} : { id }),
    name,
    sources: unique(things.sources).map((raw) => sourceOf(raw, things.sourceSettings)),
    destinations,
    functions,
    functionInstances: things.functionInstances.map(instanceOf),
    transformations: things.transformations.map(transformationOf),
    trackingPlans: things.trackingPlans.map(planOf),
    computations: [
      ...things.audiences.map((raw) => computationOf('audience', raw)),
      ...things.computedTraits.map((raw) => computationOf('trait', raw)),
    ],
    suppressed: things.suppressions.flatMap(suppressedIn),
    others: [...things.others, ...orphans(things, new Set(destinations.map((one) => one.id)))],
    unread: things.unread,
    untold: things.untold,
  };
}

/** The first of each id: pages may overlap where the workspace changes meanwhile. */
function unique(list: readonly unknown[]): readonly unknown[] {
  const seen = new Set<string>();
  return list.filter((raw) => {
    const id = textOf(fieldOf(raw, 'id'));
    if (id === undefined) return true;
    const isNew = !seen.has(id);
    seen.add(id);
    return isNew;
  });
}

function thingOf(raw: unknown, nameField = 'name') {
  const name = textOf(fieldOf(raw, nameField));
  return {
    id: textOf(fieldOf(raw, 'id')) ?? '(without an id)',
    ...(name === undefined ? {} : { name }),
    enabled: fieldOf(raw, 'enabled') !== false,
    raw,
  };
}

function byDestination<Of>(
  list: readonly unknown[],
  make: (raw: unknown) => Of,
): ReadonlyMap<string, readonly Of[]> {
  const found = new Map<string, Of[]>();
  for (const raw of list) {
    const id = textOf(fieldOf(raw, 'destinationId')) ?? '';
    const others = found.get(id);
    if (others === undefined) found.set(id, [make(raw)]);
    else others.push(make(raw));
  }
  return found;
}

/** Mappings and filters of destinations that are not in the export. */
function orphans(things: SegmentThings, known: ReadonlySet<string>): OtherThing[] {
  const listed = [
    ...things.subscriptions.map((raw) => ({ kind: 'subscription', raw })),
    ...things.filters.map((raw) => ({ kind: 'filter', raw })),
  ];
  return listed
    .filter(({ raw }) => !known.has(textOf(fieldOf(raw, 'destinationId')) ?? ''))
    .map(({ kind, raw }) => ({
      kind,
      id: thingOf(raw).id,
      reason: `its destination ${textOf(fieldOf(raw, 'destinationId')) ?? ''} is not in the export`,
    }));
}

function sourceOf(raw: unknown, settings: ReadonlyMap<string, unknown>): ExportedSource {
  const metadata = fieldsOf(fieldOf(raw, 'metadata'));
  const thing = thingOf(raw);
  const keys = fieldOf(raw, 'writeKeys');
  const writeKeys = listOf(keys).filter((key) => typeof key === 'string');
  const kind = textOf(metadata['name']) ?? textOf(metadata['slug']);
  const trust = trustOf(metadata);
  const blocks = blockedBy(settings.get(thing.id));
  const slug = textOf(fieldOf(raw, 'slug'));
  return {
    ...(slug === undefined ? {} : { name: slug }),
    ...thing,
    ...(writeKeys.length === 0 ? {} : { writeKeys }),
    ...(kind === undefined ? {} : { kind }),
    ...(trust === undefined ? {} : { trust }),
    ...(blocks === undefined ? {} : { blocks }),
    isCloud: metadata['isCloudEventSource'] === true,
    projectId: thing.id,
  };
}

function trustOf(metadata: Fields): 'client' | 'server' | undefined {
  const words = [metadata['slug'], metadata['name']]
    .map((word) => (textOf(word) ?? '').toLowerCase().trim().replace(/\s+/g, '-'))
    .filter((word) => word !== '');
  const categories = listOf(metadata['categories']).map((one) => (textOf(one) ?? '').toLowerCase());
  // A source that a page or an app may have is never trusted, whatever else it is.
  if (categories.includes('website') || categories.includes('mobile')) return 'client';
  if (CLIENT_KIND_IDS.includes(textOf(metadata['id']) ?? '')) return 'client';
  if (words.some((word) => CLIENT_KINDS.test(word))) return 'client';
  if (categories.includes('server') || words.some((word) => SERVER_KINDS.test(word))) return 'server';
  return undefined;
}

/** Settings by which a source blocks events there, such as `track.allowUnplannedEvents`. */
function blockedBy(settings: unknown): string | undefined {
  const found: string[] = [];
  for (const [part, rules] of Object.entries(fieldsOf(settings))) {
    for (const [key, value] of Object.entries(fieldsOf(rules))) {
      const isRefused = /^allow/i.test(key) && value === false;
      const isBlocked = /^common_?event_?on_?violations$/i.test(key) && value !== 'ALLOW' && value !== null;
      if (isRefused || isBlocked) found.push(`${part}.${key}`);
    }
  }
  return found.length === 0 ? undefined : found.join(', ');
}

interface Parts {
  readonly mappings: ReadonlyMap<string, readonly Mapping[]>;
  readonly filters: ReadonlyMap<string, readonly ExportedFilter[]>;
  readonly functionNames: ReadonlySet<string>;
}

function destinationOf(raw: unknown, parts: Parts): ExportedDestination {
  const metadata = fieldsOf(fieldOf(raw, 'metadata'));
  const settings = fieldsOf(jsonIn(fieldOf(raw, 'settings')));
  const thing = thingOf(raw);
  const kindId = textOf(metadata['id']);
  const kind = kindOf(metadata, parts.functionNames);
  const kindName = knownKind(kindId)?.name ?? textOf(metadata['name']) ?? kindId ?? 'of an unknown kind';
  const known = INTEGRATION_NAMES[kind];
  const former = listOf(metadata['previousNames']).filter((name) => typeof name === 'string');
  const mappings = parts.mappings.get(thing.id) ?? [];
  const sourceId = textOf(fieldOf(raw, 'sourceId'));
  const secret = textOf(settings['sharedSecret']);
  const signIn = textOf(fieldOf(fieldOf(settings['dynamicAuthSettings'], 'oauth'), 'type'));
  return {
    ...thing,
    kind,
    kindName,
    ...(kindId === undefined ? {} : { kindId }),
    integrationNames: [...new Set(known ?? [kindName, ...former])],
    sources: sourceId === undefined ? [] : [{ id: sourceId, enabled: true }],
    hooks: kind === 'classic' ? hooksOf(settings) : [],
    ...(secret === undefined || secret === '' ? {} : { sharedSecret: secret }),
    ...(signIn === undefined || signIn === 'noAuth' ? {} : { signIn }),
    ...(kind === 'actions' || kind === 'extensible' || mappings.length > 0 ? { mappings } : {}),
    filters: parts.filters.get(thing.id) ?? [],
  };
}

function knownKind(id: string | undefined) {
  return id !== undefined && Object.hasOwn(KINDS, id) ? KINDS[id] : undefined;
}

function kindOf(metadata: Fields, functionNames: ReadonlySet<string>): DestinationKind {
  const [id, slug, name] = [metadata['id'], metadata['slug'], metadata['name']].map(
    (one) => textOf(one) ?? '',
  );
  const known = knownKind(id);
  if (known !== undefined) return known.kind;
  if (Object.hasOwn(KIND_SLUGS, slug!)) return KIND_SLUGS[slug!]!;
  if (id!.startsWith('fnc_') || functionNames.has(name!)) return 'function';
  return STORAGE.test(slug!) ? 'storage' : 'other';
}

function hooksOf(settings: Fields): Hook[] {
  const method = 'POST';
  const global: Hook = { url: settings['globalHook'], method, headers: [] };
  const others = listOf(settings['hooks']).map(
    (one): Hook => ({
      url: fieldOf(one, 'hook') ?? one,
      method,
      headers: listOf(fieldOf(one, 'headers')).map((row) => ({
        name: fieldOf(row, 'key'),
        value: fieldOf(row, 'value'),
      })),
    }),
  );
  return [global, ...others];
}

function mappingOf(raw: unknown): Mapping {
  const settings = fieldsOf(jsonIn(fieldOf(raw, 'settings')));
  const { url, method = 'POST', headers, data } = settings;
  const slug = textOf(fieldOf(raw, 'actionSlug')) ?? 'send';
  const size = settings['batch_size'];
  return {
    ...thingOf(raw),
    hook: {
      url,
      method,
      headers: Object.entries(fieldsOf(headers)).map(([name, value]) => ({ name, value })),
    },
    trigger: fieldOf(raw, 'trigger'),
    data: slug === 'send' ? data : { action: slug },
    isBatched: settings['enable_batching'] === true || settings['enable_batching'] === 'true',
    notes: typeof size === 'string' ? [`its batch_size is a text there: ${JSON.stringify(size)}`] : [],
    isReverseEtl: Boolean(fieldOf(raw, 'modelId')),
  };
}

function filterOf(raw: unknown): ExportedFilter {
  return { ...thingOf(raw, 'title'), condition: fieldOf(raw, 'if') };
}

function functionOf(raw: unknown): ExportedFunction {
  return {
    ...thingOf(raw, 'displayName'),
    resourceType: textOf(fieldOf(raw, 'resourceType')) ?? '',
    code: textOf(fieldOf(raw, 'code')) ?? '',
  };
}

function instanceOf(raw: unknown): FunctionInstance {
  return { ...thingOf(raw), integrationId: textOf(fieldOf(raw, 'integrationId')) ?? '' };
}

function transformationOf(raw: unknown): Transformation {
  const sourceId = textOf(fieldOf(raw, 'sourceId'));
  const kindId = textOf(fieldOf(raw, 'destinationMetadataId'));
  return {
    ...thingOf(raw),
    ...(sourceId === undefined ? {} : { sourceId }),
    ...(kindId === undefined ? {} : { kindId }),
  };
}

function planOf(raw: unknown): TrackingPlan {
  return {
    ...thingOf(raw),
    rules: listOf(fieldOf(raw, 'rules')),
    sourceIds: listOf(fieldOf(raw, 'sourceIds')).map((id) => String(id)),
  };
}

function computationOf(kind: 'audience' | 'trait', raw: unknown): ExportedComputation {
  const definition = fieldOf(raw, 'definition');
  const subject = fieldOf(raw, 'audienceType') ?? fieldOf(definition, 'type');
  return {
    ...thingOf(raw),
    kind,
    key: textOf(fieldOf(raw, 'key')) ?? '',
    query: textOf(fieldOf(definition, 'query')) ?? '',
    subject: textOf(subject)?.toUpperCase() ?? 'USERS',
    includeAnonymous: fieldOf(fieldOf(raw, 'options'), 'includeAnonymousUsers') === true,
  };
}

function suppressedIn(raw: unknown): SuppressedUser[] {
  const idType = textOf(fieldOf(raw, 'subjectType')) ?? '';
  return listOf(fieldOf(raw, 'subjectIds')).flatMap((id) => {
    const text = textOf(id);
    return text === undefined ? [] : [{ id: text, idType }];
  });
}
