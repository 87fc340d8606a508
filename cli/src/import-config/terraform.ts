import { HclError, HclReference, parseHcl } from './hcl.ts';
import { type SegmentThings, segmentWorkspace } from './segment.ts';
import {
  type Fields,
  fieldOf,
  fieldsOf,
  jsonIn,
  listOf,
  type OtherThing,
  textOf,
  type UnreadPart,
  type Workspace,
} from './workspace.ts';

/** A resource of the Terraform provider: of a state, or of a folder that Git Sync writes. */
interface Resource {
  /** `segment_source` */
  readonly type: string;
  /** `segment_source.web`, by which others refer to it. */
  readonly address: string;
  readonly id: string;
  readonly isManaged: boolean;
  readonly values: Fields;
}

const UNTOLD = [
  'consent categories: no export has which of them a destination needs; type them in as its consent',
  'schema filters and what the schema of a source blocks, without a tracking plan',
  'Journeys, audiences, computed traits and suppressed users: ask the Public API for them',
];

const UNTOLD_BY_STATE =
  'filters, mappings, transformations and functions that Terraform does not manage: a state has only what it manages, so compare the destinations that are enabled with the app before you apply';

export interface NamedText {
  /** Path below the folder. */
  readonly path: string;
  readonly text: string;
}

/** Reads `terraform show -json`, or a state file as Terraform stores it. Undefined for another JSON. */
export function readTerraformState(state: unknown): Workspace | undefined {
  const root = fieldOf(fieldOf(state, 'values'), 'root_module');
  const stored = fieldOf(state, 'resources');
  if (root === undefined && (!Array.isArray(stored) || fieldOf(state, 'terraform_version') === undefined))
    return undefined;
  const resources = root === undefined ? storedResources(listOf(stored)) : shownResources(root);
  return workspaceOf(resources, insertsWithoutPlace(resources), [...UNTOLD, UNTOLD_BY_STATE]);
}

/** Resources of all modules, without recursion: a file may nest them as deep as it likes. */
function shownResources(root: unknown): Resource[] {
  const found: Resource[] = [];
  const modules = [root];
  for (let module = modules.pop(); module !== undefined; module = modules.pop()) {
    for (const one of listOf(fieldOf(module, 'resources'))) {
      const values = fieldsOf(fieldOf(one, 'values'));
      const isManaged = fieldOf(one, 'mode') !== 'data';
      found.push(resourceOf(one, values, isManaged));
    }
    modules.push(...[...listOf(fieldOf(module, 'child_modules'))].reverse());
  }
  return found;
}

function storedResources(resources: readonly unknown[]): Resource[] {
  return resources.flatMap((one) =>
    listOf(fieldOf(one, 'instances')).map((instance) =>
      resourceOf(one, fieldsOf(fieldOf(instance, 'attributes')), fieldOf(one, 'mode') !== 'data'),
    ),
  );
}

function resourceOf(one: unknown, values: Fields, isManaged: boolean): Resource {
  const type = textOf(fieldOf(one, 'type')) ?? '';
  const address = textOf(fieldOf(one, 'address')) ?? `${type}.${textOf(fieldOf(one, 'name')) ?? ''}`;
  return { type, address, id: textOf(values['id']) ?? address, isManaged, values };
}

/** Reads the files of a folder that Git Sync has written. */
export function readGitSync(files: readonly NamedText[]): Workspace {
  const resources: Resource[] = [];
  const failed: { path: string; reason: string }[] = [];
  for (const { path, text } of files) {
    try {
      resources.push(...resourcesIn(text));
    } catch (error) {
      if (!(error instanceof HclError)) throw error;
      failed.push({ path, reason: `cannot be read: ${error.message}` });
    }
  }
  const known = resources.filter(({ type }) => type === 'segment_destination').map(({ id }) => id);
  const unread = failed.map(
    (one): UnreadPart => ({ id: one.path, reason: one.reason, ...heldBy(one.path, known) }),
  );
  return workspaceOf(resources, [...unread, ...insertsWithoutPlace(resources)], UNTOLD);
}

function resourcesIn(text: string): Resource[] {
  const blocks = parseHcl(text);
  const ids = new Map<string, string>();
  for (const { type, attributes } of blocks) {
    const { to, id } = attributes;
    if (type === 'import' && to instanceof HclReference) ids.set(to.address, textOf(id) ?? '');
  }
  return blocks
    .filter(({ type }) => type === 'resource')
    .map(({ labels: [type = '', name = ''], attributes }) => {
      const address = `${type}.${name}`;
      // `d_act:s2` is the mapping s2 of the destination d_act.
      const id = (ids.get(address) ?? name.replace(/^id-/, '')).replace(/^.*:/, '');
      return { type, address, id, isManaged: true, values: { id, ...attributes } };
    });
}

/** The destinations that a file may be about which cannot be read, by its folder and its name. */
function heldBy(path: string, destinations: readonly string[]): Pick<UnreadPart, 'about' | 'holds'> {
  const [folder = '', file = ''] = path.replaceAll('\\', '/').split('/').slice(-2);
  const about = `what ${path} says`;
  if (/^(sources|destinations|functions|tracking_plans|warehouses|labels)$/.test(folder))
    return { about, holds: 'none' };
  const owners = destinations.filter((id) => file.startsWith(`${id}_`));
  const owner = owners.sort((one, other) => other.length - one.length)[0];
  return { about, holds: owner === undefined ? 'all' : { destination: owner } };
}

/** Functions that change events on their way, without a word on where they are at work. */
function insertsWithoutPlace(resources: readonly Resource[]): UnreadPart[] {
  if (resources.some(({ type }) => type === 'segment_insert_function_instance')) return [];
  return resources
    .filter(
      ({ type, values }) =>
        type === 'segment_function' && /^INSERT_/.test(textOf(values['resource_type']) ?? ''),
    )
    .map(({ id }) => ({
      id: `instances of ${id}`,
      reason: 'are not in the export',
      about: `whether the function ${id} is at work in front of it`,
      holds: 'all' as const,
    }));
}

/** `source_id` → `sourceId`, of the resource and of its metadata; settings stay as they are. */
function camelCased(values: Fields): Fields {
  const entries = Object.entries(values).map(([key, value]) => {
    const name = key.replace(/_([a-z])/g, (_, letter: string) => letter.toUpperCase());
    return [name, name === 'metadata' ? camelCased(fieldsOf(value)) : value] as const;
  });
  return Object.fromEntries(entries);
}

function workspaceOf(
  resources: readonly Resource[],
  unread: readonly UnreadPart[],
  untold: readonly string[],
): Workspace {
  const ids = new Map(
    resources.flatMap(({ address, id }) => [[address, id] as const, [`${address}.id`, id] as const]),
  );
  const kinds = new Map(
    resources
      .filter(({ type }) => /^segment_(source|destination)_metadata$/.test(type))
      .map(({ id, values }) => [id, camelCased(values)] as const),
  );
  const byType = Map.groupBy(
    resources.filter(({ isManaged }) => isManaged),
    ({ type }) => type,
  );
  const used = new Set<string>();
  const of = (type: string): Fields[] => {
    used.add(type);
    return (byType.get(type) ?? []).map(({ id, values }) =>
      resolved({ ...camelCased(values), id }, ids, kinds),
    );
  };
  const connections = of('segment_source_tracking_plan_connection');
  const things: SegmentThings = {
    sources: of('segment_source'),
    destinations: of('segment_destination'),
    subscriptions: of('segment_destination_subscription'),
    filters: of('segment_destination_filter').map(withFields),
    trackingPlans: plansWith(of('segment_tracking_plan'), connections),
    sourceSettings: new Map(connections.map((one) => [textOf(one['sourceId']) ?? '', one['schemaSettings']])),
    functions: of('segment_function'),
    functionInstances: of('segment_insert_function_instance'),
    transformations: of('segment_transformation'),
    audiences: [],
    computedTraits: [],
    suppressions: [],
    others: resources.filter((one) => !one.isManaged || !used.has(one.type)).map(otherThing),
    unread,
    untold,
  };
  return segmentWorkspace(things);
}

/** A resource whose ids are texts, with what else is known of its kind. */
function resolved(
  values: Fields,
  ids: ReadonlyMap<string, string>,
  kinds: ReadonlyMap<string, Fields>,
): Fields {
  const entries = Object.entries(values).map(
    ([key, value]) =>
      [key, value instanceof HclReference ? (ids.get(value.address) ?? value.address) : value] as const,
  );
  const own = Object.fromEntries(entries);
  const metadata = fieldsOf(own['metadata']);
  const kind = kinds.get(textOf(metadata['id']) ?? '');
  if (own['metadata'] === undefined) return own;
  return { ...own, metadata: { ...kind, ...withoutNulls(metadata) } };
}

function withoutNulls(fields: Fields): Fields {
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== null));
}

/** Fields of a filter's actions are JSON in a text there. */
function withFields(filter: Fields): Fields {
  const actions = listOf(filter['actions']).map((action) => {
    const fields = withoutNulls(fieldsOf(action));
    return 'fields' in fields ? { ...fields, fields: jsonIn(fields['fields']) } : fields;
  });
  return { ...filter, actions };
}

function plansWith(plans: readonly Fields[], connections: readonly Fields[]): Fields[] {
  const sources = Map.groupBy(connections, (one) => textOf(one['trackingPlanId']) ?? '');
  return plans.map((plan) => ({
    ...plan,
    sourceIds: (sources.get(textOf(plan['id']) ?? '') ?? []).map((one) => textOf(one['sourceId']) ?? ''),
  }));
}

function otherThing({ type, id, isManaged, address }: Resource): OtherThing {
  const kind = type.replace(/^segment_/, '');
  if (!isManaged)
    return { kind, id, name: address, reason: 'is only read by Terraform: it tells the kind of others' };
  const reason = type.startsWith('segment_') ? 'there is nothing of this kind here' : 'is not of Segment';
  return { kind, id, name: address, reason };
}
