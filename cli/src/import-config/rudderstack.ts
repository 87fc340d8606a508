import {
  type ExportedDestination,
  type ExportedFilter,
  type ExportedSource,
  type Fields,
  fieldOf,
  fieldsOf,
  listOf,
  type OtherThing,
  type Transformation,
  textOf,
  type Workspace,
} from './workspace.ts';

/** Names by which callers switch a webhook in an integrations object. */
const INTEGRATION_NAMES = ['Webhook', 'WEBHOOK'];

const STORAGE = /^(S3|GCS|AZURE_BLOB|MINIO|DIGITAL_OCEAN_SPACES|S3_DATALAKE|GCS_DATALAKE|AZURE_DATALAKE)$/;

const CLIENT_KINDS =
  /^(javascript|web|android|android \(kotlin\)|ios|ios \(swift\)|swift|kotlin|react ?native|flutter|unity|cordova|amp|shopify|unreal|roku)$/;
const SERVER_KINDS = /^(node|node ?js|go|python|php|\.net|net|ruby|rust|java|http)$/;

const UNTOLD = ['the code of transformations: it is in their editor', 'audiences, and suppressed users'];

/** Reads the configuration of a workspace, as its control plane answers it. Undefined for another JSON. */
export function readRudderStack(config: unknown): Workspace | undefined {
  const id = textOf(fieldOf(config, 'workspaceId'));
  const sources = fieldOf(config, 'sources');
  if (id === undefined || !Array.isArray(sources)) return undefined;
  const connected = (sources as readonly unknown[]).flatMap((source) =>
    listOf(fieldOf(source, 'destinations')).map((raw) => ({
      source: textOf(fieldOf(source, 'id')) ?? '',
      raw,
    })),
  );
  const byId = Map.groupBy(connected, ({ raw }) => textOf(fieldOf(raw, 'id')) ?? '(without an id)');
  return {
    origin: 'rudderstack',
    id,
    name: '',
    sources: (sources as readonly unknown[]).map(sourceOf),
    destinations: [...byId].map(([destination, all]) => destinationOf(destination, all)),
    transformations: [...byId].flatMap(([destination, all]) => transformationsOf(destination, all)),
    functions: [],
    functionInstances: [],
    trackingPlans: [],
    computations: [],
    suppressed: [],
    others: (sources as readonly unknown[]).flatMap(plansOf),
    unread: [],
    untold: UNTOLD,
  };
}

function thingOf(raw: unknown) {
  const name = textOf(fieldOf(raw, 'name'));
  return {
    id: textOf(fieldOf(raw, 'id')) ?? '(without an id)',
    ...(name === undefined ? {} : { name }),
    enabled: fieldOf(raw, 'enabled') !== false && fieldOf(raw, 'deleted') !== true,
    raw,
  };
}

function sourceOf(raw: unknown): ExportedSource {
  const definition = fieldsOf(fieldOf(raw, 'sourceDefinition'));
  const key = textOf(fieldOf(raw, 'writeKey'));
  const kind = textOf(definition['name']);
  const word = (kind ?? '').toLowerCase();
  const category = textOf(definition['category']) ?? '';
  const isClient = category === 'web' || CLIENT_KINDS.test(word);
  const trust = isClient ? 'client' : SERVER_KINDS.test(word) ? 'server' : undefined;
  const { destinations: _, ...rest } = fieldsOf(raw);
  const plan = fieldOf(raw, 'dgSourceTrackingPlanConfig');
  return {
    ...thingOf(raw),
    raw: rest,
    ...(key === undefined || key === '' ? {} : { writeKeys: [key] }),
    ...(kind === undefined ? {} : { kind }),
    ...(trust === undefined ? {} : { trust }),
    ...(planId(plan) === undefined ? {} : { blocks: `its tracking plan ${planId(plan)} may` }),
    isCloud: /^(cloud|singer-protocol|warehouse)$/.test(category),
  };
}

function planId(plan: unknown): string | undefined {
  const id = textOf(fieldOf(fieldOf(plan, 'trackingPlan'), 'id'));
  return id === '' ? undefined : id;
}

function plansOf(source: unknown): OtherThing[] {
  const id = planId(fieldOf(source, 'dgSourceTrackingPlanConfig'));
  const reason = 'there are no tracking plans here, and its rules are not in the file';
  return id === undefined ? [] : [{ kind: 'trackingPlan', id, reason }];
}

interface Connection {
  readonly source: string;
  readonly raw: unknown;
}

function destinationOf(id: string, all: readonly Connection[]): ExportedDestination {
  const raw = all[0]!.raw;
  const config = fieldsOf(fieldOf(raw, 'config'));
  const definition = fieldOf(raw, 'destinationDefinition');
  const type = textOf(fieldOf(definition, 'name')) ?? '';
  const isWebhook = type === 'WEBHOOK';
  return {
    ...thingOf(raw),
    id,
    kind: isWebhook ? 'webhook' : STORAGE.test(type) ? 'storage' : 'other',
    kindName: textOf(fieldOf(definition, 'displayName')) ?? type,
    integrationNames: isWebhook ? INTEGRATION_NAMES : [],
    sources: all.map(({ source, raw: connection }) => ({
      id: source,
      enabled: fieldOf(connection, 'isConnectionEnabled') !== false,
    })),
    hooks: isWebhook
      ? [
          {
            url: config['webhookUrl'],
            method: config['webhookMethod'] ?? 'POST',
            headers: listOf(config['headers']).map((row) => ({
              name: fieldOf(row, 'from'),
              value: fieldOf(row, 'to'),
            })),
          },
        ]
      : [],
    filters: eventFilter(id, config),
    holds: consentIn(config),
    enabled: thingOf(raw).enabled && fieldOf(raw, 'isProcessorEnabled') !== false,
    ...(fieldOf(raw, 'deleted') === true ? { isGone: true } : {}),
  };
}

/** Consent that it needs there, in one of the forms that its settings have had. */
function consentIn(config: Fields): string[] {
  const { consentManagement, oneTrustCookieCategories, ketchConsentPurposes } = config;
  const ids = [
    ...listOf(consentManagement).flatMap((one) =>
      listOf(fieldOf(one, 'consents')).map((consent) => fieldOf(consent, 'consent')),
    ),
    ...listOf(oneTrustCookieCategories).map((one) => fieldOf(one, 'oneTrustCookieCategory')),
    ...listOf(ketchConsentPurposes).map((one) => fieldOf(one, 'purpose')),
  ].flatMap((id) => textOf(id) || []);
  if (ids.length === 0) return [];
  return [
    `it needs the consent ${ids.slice(0, 20).join(', ')}, which calls state in another form there: see consent of destinations`,
  ];
}

/** Events that the destination gets, or does not, by their names. */
function eventFilter(id: string, config: Fields): ExportedFilter[] {
  const option = textOf(config['eventFilteringOption']) ?? 'disable';
  if (option === 'disable' || option === '') return [];
  const { whitelistedEvents, blacklistedEvents } = config;
  const raw = { option, whitelistedEvents, blacklistedEvents };
  return [{ id: `${id}.eventFilteringOption`, enabled: true, raw, condition: 'all' }];
}

function transformationsOf(destination: string, all: readonly Connection[]): Transformation[] {
  const listed = all.flatMap(({ raw }) => listOf(fieldOf(raw, 'transformations')));
  const byId = new Map(listed.map((raw) => [textOf(fieldOf(raw, 'id')) ?? '(without an id)', raw] as const));
  return [...byId].map(([id, raw]) => ({
    ...thingOf(raw),
    id,
    destinationId: destination,
    isTextMissing: true,
  }));
}
