import { recordFaults } from '@millrace/server/config';
import { endpointsOf, isMasked } from './endpoints.ts';
import { type EventFilter, filterOfTrigger, isReadable } from './fql.ts';
import { Names } from './names.ts';
import { PRODUCT, WITH_SHAPING } from './product.ts';
import type { SourceNames } from './sources.ts';
import { keptText, type Translation, type WrittenRecord } from './translation.ts';
import type {
  DestinationKind,
  ExportedDestination,
  ExportedFilter,
  ExportedSource,
  Hook,
  Mapping,
  Workspace,
} from './workspace.ts';

/** Reasons why nothing is made of a kind. */
const NOT_HERE: Readonly<Partial<Record<DestinationKind, string>>> = {
  list: 'it keeps lists at its receiver, and asks it for them first: there is no such destination here',
  storage: 'storage: there is no such destination here; its archive can be imported as history',
  other: 'no such destination here',
};

/** Reasons of all that stands between a source and its destinations there, by the ids of both. */
interface Between {
  readonly ofDestination: ReadonlyMap<string, readonly string[]>;
  readonly ofSource: ReadonlyMap<string, readonly string[]>;
  /** By source and kind of destination, as `JSON.stringify` of both. */
  readonly ofKind: ReadonlyMap<string, readonly string[]>;
  readonly ofAll: readonly string[];
}

/** Why a destination is not as it was there. */
interface Differences {
  /** Lost for good, or until somebody types it in. */
  readonly losses: string[];
  /** It would get other events, or other bodies, than it did there. */
  readonly holds: string[];
  readonly notes: string[];
}

/**
 * Makes a record of each webhook. One that would get here what it did not get there, or the other way round,
 * is off, with the reason; so is one of which a part could not be read.
 */
export function translateDestinations(
  workspace: Workspace,
  sources: SourceNames,
  translation: Translation,
): void {
  const between = betweenOf(workspace);
  const names = new Names(reservedNames(workspace));
  const sourceOf = new Map(workspace.sources.map((one) => [one.id, one]));
  const codeOf = new Map(workspace.functions.map(({ name = '', code }) => [name, code]));
  const context = { workspace, sources, sourceOf, codeOf, between, names };
  for (const destination of workspace.destinations) {
    const refusal = refusalOf(destination, context);
    if (refusal === undefined) new DestinationTranslation(destination, context, translation).write();
    else notTaken(destination, refusal, translation);
  }
}

/**
 * Names that would mean something else in an integrations object here than there: those of kinds. A webhook
 * that is called Mixpanel is not switched off there by `{"Mixpanel": false}`.
 */
function* reservedNames({ destinations }: Workspace): Generator<string> {
  yield* PRODUCT.destinationNames;
  yield* ['Webhooks (Actions)', 'Webhook', 'WEBHOOK', 'Extensible Webhook', 'Segment.io'];
  for (const { kindName, integrationNames } of destinations) {
    yield kindName;
    yield* integrationNames;
  }
}

/** The reason why a destination has no record here at all. */
function refusalOf(
  { kind, kindName, signIn, sources: named, isGone, hooks }: ExportedDestination,
  { sources, sourceOf, codeOf }: DestinationContext,
): string | undefined {
  if (isGone === true) return 'is deleted there';
  if (kind === 'function') {
    // Its kind is called `Score Leads (North Shop)`.
    const code = codeOf.get(kindName) ?? codeOf.get(kindName.replace(/ \([^()]*\)$/, ''));
    if (code === undefined) return 'a function, and its code is not in the export';
    const need = needOfNetwork(code);
    return need === undefined ? `${WITH_SHAPING}: a function` : `its function needs the network: ${need}`;
  }
  const notHere = NOT_HERE[kind];
  if (notHere !== undefined) return notHere;
  if (signIn !== undefined) return `OAuth to the receiver, or another way to sign in there: ${signIn}`;
  const methods = hooks.map(({ method }) => String(method).toUpperCase()).filter((one) => one !== 'POST');
  if (methods.length > 0) return `its method is ${methods[0]}, and requests here are POST`;
  if (named.some(({ id }) => sources.has(id))) return undefined;
  const isCloud = named.some(({ id }) => sourceOf.get(id)?.isCloud === true);
  return isCloud ? 'its source is one in the cloud, which is not taken' : 'its source is not in the export';
}

/** The word by which a function needs the network or a module; undefined where it needs neither. */
export function needOfNetwork(code: string): string | undefined {
  return /\b(fetch|https|AWS|stripe|require|XMLHttpRequest)\b/.exec(code)?.[1];
}

function notTaken(destination: ExportedDestination, reason: string, translation: Translation): void {
  translation.tell('destination', destination, 'not', { reasons: [reason] });
  const reasons = [`its destination ${destination.id} is not taken`];
  for (const one of destination.mappings ?? []) translation.tell('subscription', one, 'not', { reasons });
  for (const one of destination.filters) translation.tell('filter', one, 'not', { reasons });
}

/** Most characters of texts that are kept in front of one destination. */
const MOST_KEPT = 250_000;

interface DestinationContext {
  readonly workspace: Workspace;
  readonly sources: SourceNames;
  readonly sourceOf: ReadonlyMap<string, ExportedSource>;
  /** The code of functions by their names. */
  readonly codeOf: ReadonlyMap<string, string>;
  readonly between: Between;
  readonly names: Names;
}

class DestinationTranslation {
  readonly #destination: ExportedDestination;
  readonly #context: DestinationContext;
  readonly #translation: Translation;
  readonly #differences: Differences = { losses: [], holds: [], notes: [] };
  readonly #kept: string[] = [];
  #keptLength = 0;

  constructor(destination: ExportedDestination, context: DestinationContext, translation: Translation) {
    this.#destination = destination;
    this.#context = context;
    this.#translation = translation;
  }

  write(): void {
    const { losses, holds, notes } = this.#differences;
    const { hooks, filter } = this.#requests();
    const { endpoints, userAgent, ...found } = endpointsOf(hooks);
    losses.push(...found.losses);
    notes.push(...found.notes);
    for (const one of this.#destination.filters) this.#filter(one);
    holds.push(...(this.#destination.holds ?? []), ...this.#between());
    if (endpoints.length === 0) {
      const reasons = ['it has no URL that requests could be sent to', ...losses, ...notes];
      this.#translation.tell('destination', this.#destination, 'not', { reasons });
      this.#translation.end.push(...this.#kept);
      return;
    }
    const name = this.#name();
    const sharedSecret = this.#secret(name);
    const sources = this.#sources();
    const isOff = losses.length + holds.length > 0 || !this.#isEnabled();
    const { integrationNames } = this.#destination;
    const { origin } = this.#context.workspace;
    const record: WrittenRecord = {
      name,
      type: 'webhooks',
      sources,
      enabled: !isOff,
      settings: {
        endpoints: endpoints.map(({ url, headers }) => ({ url, headers })),
        ...(sharedSecret === undefined ? {} : { sharedSecret }),
        format: PRODUCT.wholeEvent[origin],
        ...(userAgent === undefined ? {} : { userAgent }),
        success: this.#destination.mappings !== undefined && endpoints.length > 1 ? 'each' : 'any',
        ...(filter === undefined ? {} : { filter: { ...filter } }),
        integrationNames,
      },
    };
    this.#put(record, isOff);
  }

  /** The last look: whatever the server would refuse is not written. */
  #put(record: WrittenRecord, isOff: boolean): void {
    const { losses, holds, notes } = this.#differences;
    const [fault] = recordFaults('destination', withoutMissing(record));
    if (fault !== undefined) {
      const reasons = [`${fault.path.join('.')} ${fault.message}`, ...losses];
      this.#translation.tell('destination', this.#destination, 'not', { reasons });
      return;
    }
    const wasEnabled = this.#isEnabled();
    if (!wasEnabled) notes.unshift('disabled there, disabled here');
    if ((this.#destination.name ?? '') === '')
      notes.push('it has no name there: one is made from its kind and source');
    const isPartly = losses.length > 0 || (wasEnabled && holds.length > 0);
    const before = isPartly ? holds : holds.map((hold) => `before it is enabled: ${hold}`);
    this.#translation.tell('destination', this.#destination, isPartly ? 'partly' : 'taken', {
      reasons: [...(wasEnabled && isOff ? ['is off here'] : []), ...losses, ...before, ...notes],
      as: record.name,
    });
    this.#translation.records.push({ list: 'destinations', record });
    const why = listed([...losses, ...holds]);
    const head = why.length === 0 ? [] : ['Is off until somebody has decided about this:', ...why];
    const lines = [...head, ...this.#kept];
    if (lines.length > 0) this.#translation.before.set(`destinations ${record.name}`, lines);
  }

  #isEnabled(): boolean {
    const { enabled, sources } = this.#destination;
    return enabled && sources.some((one) => one.enabled && this.#context.sources.has(one.id));
  }

  /** Names of the sources that feed it; where all of them are switched off for it, all. */
  #sources(): string[] {
    const { sources } = this.#context;
    const listed = this.#destination.sources.filter(({ id }) => sources.has(id));
    const on = listed.filter(({ enabled }) => enabled);
    if (on.length < listed.length && on.length > 0)
      this.#differences.notes.push('its connections that are off there are left out');
    return [...new Set((on.length > 0 ? on : listed).map(({ id }) => sources.get(id)!))];
  }

  #name(): string {
    const { name = '', kindName } = this.#destination;
    const source = this.#sources()[0] ?? '';
    return this.#context.names.give(name, `${name.trim() || kindName} of ${source}`);
  }

  #secret(name: string) {
    const { sharedSecret, id } = this.#destination;
    if (sharedSecret === undefined || !isMasked(sharedSecret)) return sharedSecret;
    const text = `the shared secret of the destination ${JSON.stringify(name)} (${id}), of which the export has ${sharedSecret.slice(-4)} alone`;
    const { value, isAnswered } = this.#translation.ask(name, 'SECRET', text);
    if (isAnswered) return { ...value };
    this.#differences.losses.push(
      `the secret is masked in the export: set ${value.variable} and import again, or type it in as sharedSecret`,
    );
    return undefined;
  }

  /** Requests, and the filter that stands for all their triggers. */
  #requests(): { readonly hooks: readonly Hook[]; readonly filter?: EventFilter } {
    const { mappings, hooks } = this.#destination;
    if (mappings === undefined) return { hooks };
    const usable = mappings.filter((one) => this.#isUsable(one));
    const filters = usable.map(({ trigger }) => filterOfTrigger(trigger));
    const texts = new Set(filters.map((one) => JSON.stringify(one)));
    const isOne = texts.size === 1 && filters[0] !== undefined;
    for (const one of usable) this.#mapping(one, isOne);
    const found = usable.map(({ hook }) => hook);
    return isOne ? { hooks: found, filter: filters[0]! } : { hooks: found };
  }

  /** Mappings that send nothing have no URL here. */
  #isUsable(mapping: Mapping): boolean {
    const { hook, enabled, isReverseEtl, trigger } = mapping;
    const isUnfinished = hook.url === undefined || hook.url === null || hook.url === '';
    const reasons = [
      ...(isReverseEtl ? ['a mapping of reverse ETL: there are no models here'] : []),
      ...(isUnfinished ? ['no url: unfinished'] : []),
      ...(/^\s*event\s*=\s*(""|'')\s*$/.test(String(trigger)) ? ['an empty trigger: no event has it'] : []),
      ...(enabled ? [] : ['disabled there: a URL has no switch of its own here, so it is left out']),
    ];
    if (reasons.length === 0) return true;
    this.#translation.tell('subscription', mapping, 'not', { reasons });
    this.#keep('mapping', mapping);
    return false;
  }

  #mapping(mapping: Mapping, isTriggerTaken: boolean): void {
    const { hook, data, isBatched, trigger, notes } = mapping;
    const method = typeof hook.method === 'string' ? hook.method.toUpperCase() : 'computed for each event';
    const readable = filterOfTrigger(trigger) !== undefined;
    const needs = [
      ...(isTriggerTaken ? [] : [readable ? 'its trigger beside those of other URLs' : 'its trigger']),
      ...(isWholeEvent(data) ? [] : ['its body']),
      ...(method === 'POST' ? [] : [`its method ${method}`]),
      ...(isBatched ? ['its batches'] : []),
      ...(typeof hook.url === 'string' ? [] : ['its URL']),
    ];
    if (needs.length === 0) {
      this.#translation.tell('subscription', mapping, 'taken', { reasons: notes });
      return;
    }
    const reason = `${WITH_SHAPING}: ${needs.join(', ')}`;
    this.#translation.tell('subscription', mapping, 'not', { reasons: [reason, ...notes] });
    this.#differences.holds.push(`mapping ${titled(mapping)} ${reason}`);
    this.#keep('mapping', mapping);
  }

  #filter(filter: ExportedFilter): void {
    const readable = isReadable(filter.condition);
    const reason = readable
      ? `${WITH_SHAPING}${filter.enabled ? '' : '; disabled there'}`
      : `cannot be read; there it lets no event through, so its destination is off until that is decided${filter.enabled ? '' : '; disabled there'}`;
    this.#translation.tell('filter', filter, 'not', { reasons: [reason] });
    if (filter.enabled)
      this.#differences.holds.push(`filter ${titled(filter)} ${readable ? WITH_SHAPING : 'cannot be read'}`);
    this.#keep('filter', filter);
  }

  /** Reasons in front of it: all that changes or stops its events there. */
  #between(): string[] {
    const { between, sourceOf } = this.#context;
    const { id, kindId = '', sources } = this.#destination;
    const perSource = sources.flatMap((source) => {
      const blocks = sourceOf.get(source.id)?.blocks;
      return [
        ...(between.ofSource.get(source.id) ?? []),
        ...(between.ofKind.get(JSON.stringify([source.id, kindId])) ?? []),
        ...(blocks === undefined ? [] : [`its source blocks events there: ${blocks}`]),
      ];
    });
    return [...between.ofAll, ...(between.ofDestination.get(id) ?? []), ...perSource];
  }

  #keep(kind: string, { id, name, raw }: Mapping | ExportedFilter): void {
    if (this.#keptLength > MOST_KEPT) return;
    const lines = keptText(`${kind} ${titled({ id, ...(name === undefined ? {} : { name }) })}`, raw);
    this.#keptLength += lines.reduce((sum, line) => sum + line.length, 0);
    this.#kept.push(...lines);
    if (this.#keptLength > MOST_KEPT) this.#kept.push('… (more is in the export)');
  }
}

/** Most reasons in front of one destination. */
const MOST_LISTED = 50;

function listed(reasons: readonly string[]): string[] {
  const lines = reasons.slice(0, MOST_LISTED).map((reason) => `- ${reason}`);
  const more = reasons.length - lines.length;
  return more === 0 ? lines : [...lines, `- and ${more} more`];
}

function titled({ id, name }: { readonly id: string; readonly name?: string }): string {
  return name === undefined || name === '' ? id : `${id} ${JSON.stringify(name)}`;
}

/** The body is the whole event where the mapping says nothing of it, or asks for the event itself. */
function isWholeEvent(data: unknown): boolean {
  return data === undefined || data === null || JSON.stringify(data) === '{"@path":"$."}';
}

/** A record with texts in place of values that the environment has. */
function withoutMissing(record: WrittenRecord): WrittenRecord {
  const text = JSON.stringify(record, (_, value: unknown) =>
    typeof value === 'object' && value !== null && 'variable' in value && 'set' in value ? 'value' : value,
  );
  return JSON.parse(text) as WrittenRecord;
}

function betweenOf({
  transformations,
  functionInstances,
  unread,
  destinations,
  sources,
}: Workspace): Between {
  const [ofDestination, ofSource, ofKind, ofAll] = [
    new Reasons(),
    new Reasons(),
    new Reasons(),
    new Reasons(),
  ];
  for (const one of transformations) {
    if (!one.enabled) continue;
    const what = `the transformation ${titled(one)}`;
    const reason =
      one.isTextMissing === true ? `${what}, whose code is not in the file` : `${what} ${WITH_SHAPING}`;
    if (one.destinationId !== undefined) ofDestination.add(one.destinationId, reason);
    else if (one.sourceId === undefined) ofAll.add(ALL, reason);
    else if (one.kindId === undefined) ofSource.add(one.sourceId, reason);
    else ofKind.add(JSON.stringify([one.sourceId, one.kindId]), reason);
  }
  const known = new Set([...destinations, ...sources].map(({ id }) => id));
  for (const one of functionInstances) {
    if (!one.enabled) continue;
    const reason = `the function ${titled(one)} ${WITH_SHAPING}`;
    if (!known.has(one.integrationId)) ofAll.add(ALL, `${reason}, whose place is not in the export`);
    ofDestination.add(one.integrationId, reason);
    ofSource.add(one.integrationId, reason);
  }
  for (const { id, reason, about, holds } of unread) {
    const text = `could not read ${about}: ${id} ${reason}`;
    if (holds === 'all') ofAll.add(ALL, text);
    else if (holds !== 'none' && 'destination' in holds) ofDestination.add(holds.destination, text);
    else if (holds !== 'none') ofSource.add(holds.source, text);
  }
  return { ofDestination, ofSource, ofKind, ofAll: ofAll.get(ALL) ?? [] };
}

const ALL = 'all';

/** Most reasons of one source or destination that are kept: each is written beside every destination. */
const MAX_REASONS = 8;

/** Reasons by a key. */
class Reasons extends Map<string, string[]> {
  add(key: string, reason: string): void {
    const list = this.get(key);
    if (list === undefined) this.set(key, [reason]);
    else if (list.length < MAX_REASONS) list.push(reason);
    else if (list.length === MAX_REASONS) list.push('and more, which are in the report');
  }
}
