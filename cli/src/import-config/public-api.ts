import { type SegmentThings, segmentWorkspace } from './segment.ts';
import {
  type Fields,
  fieldOf,
  fieldsOf,
  type OtherThing,
  textOf,
  type UnreadPart,
  type Workspace,
} from './workspace.ts';

/** The answer to a request for a list, all its pages together. */
export interface Listed {
  readonly items: readonly unknown[];
  /** The reason why the list is not whole. Absent: it is. */
  readonly missing?: string;
}

/** The Public API of a workspace: its answers in files, or the API itself. */
export interface PublicApi {
  /** `path` without its query, but for `/functions?resourceType=…`; `key` is the field of `data`. */
  list(path: string, key: string): Promise<Listed>;
  /** The `data` of a request for one thing; a text where there is none, with the reason. */
  one(path: string): Promise<Fields | string>;
  /** Whether the answer can be had for nothing, so that it is read although nothing is made of it. */
  isAtHand(path: string): boolean;
  /** Answers that nothing has asked for, when all else was read. */
  unasked(): readonly OtherThing[];
}

const FUNCTION_TYPES = ['SOURCE', 'DESTINATION', 'INSERT_DESTINATION', 'INSERT_SOURCE'];

/** Destinations whose mappings and filters are asked for; of all others nothing can be taken. */
const WEBHOOK_KINDS =
  /^(54521fdc25e721e32a72ef04|614a3c7d791c91c41bae7599|66b1f528d26440823fb27af9|webhooks|(actions-)?(extensible-)?webhook(-extensible)?)$/;

/** Requests that are under way at once. The API answers 429 to many more. */
const LANES = 4;

/** Facts that its answers never tell. */
const UNTOLD = [
  'consent categories: no call returns which of them a destination needs; type them in as its consent',
  'schema filters and what the schema of a source blocks, without a tracking plan',
  'Journeys, and the destinations that hear of each audience and computed trait',
  'warehouses, models of reverse ETL, and who may do what',
];

/**
 * Reads a whole workspace. Whatever cannot be read is in `unread`, and nothing is left out in silence.
 *
 * @param none The parts that it does not have, by the word of somebody who has looked.
 */
export async function readPublicApi(api: PublicApi, none: readonly string[] = []): Promise<Workspace> {
  const reader = new Reader(api, none);
  const workspace = await api.one('/');
  if (typeof workspace === 'string') reader.note('/', workspace);
  const sources = await reader.list('/sources', 'sources');
  const destinations = await reader.list('/destinations', 'destinations');
  const parts = await inLanes(destinations, (raw) => partsOf(raw, reader));
  const plans = await readPlans(reader, sources);
  const functions = await inLanes(FUNCTION_TYPES, (type) =>
    reader.list(`/functions?resourceType=${type}`, 'functions'),
  );
  const held = { about: 'the functions between sources and destinations', holds: 'all' } as const;
  const functionInstances = await reader.list('/insert-function-instances', 'insertFunctionInstances', held);
  const transformations = await reader.list('/transformations', 'transformations', {
    about: 'the transformations',
    holds: 'all',
  });
  const spaces = await reader.list('/spaces', 'spaces');
  const computations = await inLanes(spaces, (raw) => computationsOf(raw, reader));
  const suppressions = await reader.list('/suppressions', 'suppressed');
  const things: SegmentThings = {
    ...(typeof workspace === 'string' ? {} : { workspace: fieldsOf(workspace['workspace']) }),
    sources,
    destinations,
    subscriptions: parts.flatMap((one) => one.subscriptions),
    filters: parts.flatMap((one) => one.filters),
    trackingPlans: plans.trackingPlans,
    sourceSettings: plans.sourceSettings,
    functions: withoutRepeats(functions.flat()),
    functionInstances,
    transformations,
    audiences: computations.flatMap((one) => one.audiences),
    computedTraits: computations.flatMap((one) => one.computedTraits),
    suppressions,
    others: [...spaces.map(spaceThing), ...api.unasked()],
    unread: reader.unread,
    untold: UNTOLD,
  };
  return segmentWorkspace(things);
}

type Held = Pick<UnreadPart, 'about' | 'holds'>;

class Reader {
  readonly api: PublicApi;
  readonly unread: UnreadPart[] = [];
  readonly #none: readonly string[];

  constructor(api: PublicApi, none: readonly string[]) {
    this.api = api;
    this.#none = none;
  }

  async list(path: string, key: string, held?: Held): Promise<readonly unknown[]> {
    const { items, missing } = await this.api.list(path, key);
    if (missing === undefined) return items;
    const isDenied = items.length === 0 && this.#none.includes(path.slice(1));
    if (isDenied) this.note(path, `${missing}; there are none, by --none`);
    else this.note(path, missing, held);
    return items;
  }

  note(path: string, reason: string, held: Held = { about: '', holds: 'none' }): void {
    this.unread.push({ id: `GET ${path}`, reason, ...held });
  }
}

async function partsOf(raw: unknown, reader: Reader) {
  const id = textOf(fieldOf(raw, 'id')) ?? '';
  const metadata = fieldOf(raw, 'metadata');
  const words = [fieldOf(metadata, 'id'), fieldOf(metadata, 'slug')].map((word) => textOf(word) ?? '');
  const isWebhook = words.some((word) => WEBHOOK_KINDS.test(word));
  const isClassic = words.some((word) => /^(54521fdc25e721e32a72ef04|webhooks)$/.test(word));
  const encoded = segmentOf(id);
  const [mappingPath, filterPath] = [
    `/destinations/${encoded}/subscriptions`,
    `/destination/${encoded}/filters`,
  ];
  const holds = { destination: id };
  const isAsked = (path: string, isNeeded: boolean) => isNeeded || reader.api.isAtHand(path);
  const subscriptions = isAsked(mappingPath, isWebhook && !isClassic)
    ? await reader.list(mappingPath, 'subscriptions', { about: 'its mappings', holds })
    : [];
  const filters = isAsked(filterPath, isWebhook)
    ? await reader.list(filterPath, 'filters', { about: 'its filters', holds })
    : [];
  const withOwner = (one: unknown) => ({ ...fieldsOf(one), destinationId: id });
  return { subscriptions: subscriptions.map(withOwner), filters: filters.map(withOwner) };
}

/** Settings are asked for where a plan may block events, and read where they are there anyway. */
async function readPlans(reader: Reader, sources: readonly unknown[]) {
  const about = 'which events tracking plans block';
  const plans = await reader.list('/tracking-plans', 'trackingPlans', { about, holds: 'all' });
  const trackingPlans = await inLanes(plans, async (raw) => {
    const path = `/tracking-plans/${segmentOf(textOf(fieldOf(raw, 'id')))}`;
    const rules = await reader.list(`${path}/rules`, 'rules');
    const planned = await reader.list(`${path}/sources`, 'sources', { about, holds: 'all' });
    const sourceIds = planned.map((one) => textOf(fieldOf(one, 'id')) ?? '');
    return { ...fieldsOf(raw), rules, sourceIds };
  });
  const settingsPath = (source: string) => `/sources/${segmentOf(source)}/settings`;
  const atHand = sources
    .map((raw) => textOf(fieldOf(raw, 'id')) ?? '')
    .filter((id) => reader.api.isAtHand(settingsPath(id)));
  const asked = new Set([...trackingPlans.flatMap(({ sourceIds }) => sourceIds), ...atHand]);
  const settings = await inLanes([...asked], async (source) => {
    const path = settingsPath(source);
    const found = await reader.api.one(path);
    if (typeof found !== 'string') return [source, found] as const;
    reader.note(path, found, { about: 'what its tracking plan blocks', holds: { source } });
    return [source, {}] as const;
  });
  return { trackingPlans, sourceSettings: new Map<string, unknown>(settings) };
}

async function computationsOf(raw: unknown, reader: Reader) {
  const path = `/spaces/${segmentOf(textOf(fieldOf(raw, 'id')))}`;
  return {
    audiences: await reader.list(`${path}/audiences`, 'audiences'),
    computedTraits: await reader.list(`${path}/computed-traits`, 'computedTraits'),
  };
}

function spaceThing(raw: unknown): OtherThing {
  const name = textOf(fieldOf(raw, 'name'));
  return {
    kind: 'space',
    id: textOf(fieldOf(raw, 'id')) ?? '(without an id)',
    ...(name === undefined ? {} : { name }),
    reason: 'there are no spaces here: audiences and computed traits of all spaces stand side by side',
  };
}

function withoutRepeats(list: readonly unknown[]): readonly unknown[] {
  const byId = new Map(list.map((raw) => [textOf(fieldOf(raw, 'id')) ?? raw, raw] as const));
  return [...byId.values()];
}

/** An id as a part of a path. */
function segmentOf(id: string | undefined): string {
  return encodeURIComponent((id ?? '').toWellFormed());
}

/** Does something for each, a few at once, with the results in order. */
async function inLanes<From, To>(list: readonly From[], work: (one: From) => Promise<To>): Promise<To[]> {
  const done = new Array<To>(list.length);
  const left = list.entries();
  const lane = async () => {
    for (const [place, one] of left) done[place] = await work(one);
  };
  await Promise.all(Array.from({ length: Math.min(LANES, list.length) }, lane));
  return done;
}

/** The items of pages, and why they are not all: a page that another one names, or a number of entries. */
export function joinedPages(pages: readonly Page[], key: string): Listed {
  const items: unknown[] = [];
  let total = 0;
  const currents = new Set<string>();
  const nexts = new Set<string>();
  for (const { data, cursor } of pages) {
    const list = data[key];
    if (!Array.isArray(list)) return { items, missing: `has no list ${key}` };
    for (const item of list as readonly unknown[]) items.push(item);
    const { current, next, totalEntries } = fieldsOf(data['pagination']);
    for (const one of [cursor, current]) if (typeof one === 'string') currents.add(one);
    if (typeof next === 'string' && next !== '') nexts.add(next);
    if (typeof totalEntries === 'number') total = Math.max(total, totalEntries);
  }
  const absent = [...nexts].filter((next) => !currents.has(next));
  if (absent.length > 0) return { items, missing: 'a page of it is missing' };
  if (pages.every((page) => isLater(page, nexts))) return { items, missing: 'its first page is missing' };
  if (items.length < total) return { items, missing: `has ${items.length} of ${total} entries` };
  return { items };
}

export interface Page {
  readonly data: Fields;
  /** The cursor that it was asked for with. */
  readonly cursor?: string;
}

/** Whether a page cannot be the first one. A cursor is a number in base64, `MA==` for 0. */
function isLater({ data, cursor }: Page, nexts: ReadonlySet<string>): boolean {
  const current = fieldOf(data['pagination'], 'current');
  if (cursor !== undefined && cursor !== '') return true;
  if (typeof current !== 'string') return false;
  if (nexts.has(current)) return true;
  const decoded = Buffer.from(current, 'base64').toString();
  return /^\d+$/.test(decoded) && Number(decoded) > 0;
}
