import type { RecordOf, RecordPatch } from '../../api/records.ts';
import { plainAddress } from '../../editing/drafts.ts';
import { isSame, numberOf } from '../../editing/fields.ts';
import type { FieldLabels } from '../../editing/overtaken.tsx';
import type { RecordForm } from '../../editing/use-edited-record.ts';
import type { NewRecordForm } from '../../editing/use-kept-form.ts';

export type Destination = RecordOf<'destinations'>;

type WebhookSettings = Extract<Destination, { readonly type: 'webhooks' }>['settings'];

/** The mark that stands in an answer in the place of a secret. Sent back, it keeps the secret. */
export interface StoredSecret {
  readonly set: true;
  readonly hint?: string;
}

export const CALL_TYPES = ['identify', 'track', 'page', 'screen', 'group', 'alias'] as const;
export type CallType = (typeof CALL_TYPES)[number];

export interface HeaderDraft {
  readonly name: string;
  /** A stored secret stays until something is typed. */
  readonly value: string | StoredSecret;
}

export interface EndpointDraft {
  readonly url: string;
  readonly headers: readonly HeaderDraft[];
}

/** A destination as its form holds it: every field can be typed into, numbers are texts. */
export interface DestinationDraft {
  readonly name: string;
  readonly sources: readonly string[];
  readonly endpoints: readonly EndpointDraft[];
  /** Empty: requests are not signed with it. */
  readonly sharedSecret: string | StoredSecret;
  /** Empty: none takes its place. */
  readonly nextSharedSecret: string | StoredSecret;
  readonly signingSecrets: readonly (string | StoredSecret)[];
  readonly publicSignature: boolean;
  readonly format: 'documented' | 'canonical' | 'segment';
  /** Empty: that of the server. */
  readonly userAgent: string;
  readonly success: 'any' | 'each';
  readonly types: readonly CallType[];
  /** One a line. */
  readonly events: string;
  /** Ids of consent categories, one a line. */
  readonly consent: string;
  /** The form in which it hears of audiences and computed traits. */
  readonly changesAs: 'identify' | 'track' | 'both';
  /** Empty: no namespace and no space_id. */
  readonly space: string;
  /** Names of track events. Empty: the usual ones. */
  readonly enteredEvent: string;
  readonly exitedEvent: string;
  readonly traitEvent: string;
  readonly withEmail: boolean;
  /** Names of traits, one a line. */
  readonly withTraits: string;
  /** Whether integrations objects know it by the names of its type, or by those below. */
  readonly answersTo: 'usual' | 'own';
  /** One a line. */
  readonly integrationNames: string;
  readonly rateLimit: string;
  readonly concurrency: string;
}

export const NEW_DESTINATION: DestinationDraft = {
  name: '',
  sources: [],
  endpoints: [{ url: '', headers: [] }],
  sharedSecret: '',
  nextSharedSecret: '',
  signingSecrets: [],
  publicSignature: false,
  format: 'documented',
  userAgent: '',
  success: 'any',
  types: [],
  events: '',
  consent: '',
  changesAs: 'identify',
  space: '',
  enteredEvent: '',
  exitedEvent: '',
  traitEvent: '',
  withEmail: false,
  withTraits: '',
  answersTo: 'usual',
  integrationNames: '',
  rateLimit: '',
  concurrency: '',
};

/** The form of a stored destination of type webhooks. */
export function draftOf({ name, sources, settings: stored }: Destination): DestinationDraft {
  const settings = stored as WebhookSettings;
  const {
    endpoints,
    sharedSecret = '',
    nextSharedSecret = '',
    signingSecrets = [],
    format,
    success,
    userAgent = '',
  } = settings;
  const {
    filter,
    integrationNames,
    consent,
    computations = {},
    rateLimit,
    concurrency,
  } = settings as {
    readonly integrationNames?: readonly string[];
    readonly consent?: readonly string[];
    readonly computations?: ComputationForm;
    readonly filter?: { readonly types?: CallType[]; readonly events?: string[] };
    readonly rateLimit?: number;
    readonly concurrency?: number;
  };
  return {
    name,
    sources,
    endpoints: endpoints.map(({ url, headers }) => ({
      url,
      headers: Object.entries(headers).map(([name, value]) => ({ name, value })),
    })),
    sharedSecret,
    nextSharedSecret,
    signingSecrets,
    publicSignature: settings.publicSignature === true,
    format,
    userAgent,
    success,
    types: filter?.types ?? [],
    events: (filter?.events ?? []).join('\n'),
    consent: (consent ?? []).join('\n'),
    ...draftOfChanges(computations),
    answersTo: integrationNames === undefined ? 'usual' : 'own',
    integrationNames: (integrationNames ?? []).join('\n'),
    rateLimit: rateLimit === undefined ? '' : String(rateLimit),
    concurrency: concurrency === undefined ? '' : String(concurrency),
  };
}

/** As the server stores it. */
interface ComputationForm {
  readonly as?: DestinationDraft['changesAs'];
  readonly space?: string;
  readonly enteredEvent?: string;
  readonly exitedEvent?: string;
  readonly traitEvent?: string;
  readonly email?: boolean;
  readonly traits?: readonly string[];
}

function draftOfChanges({ as: changesAs = 'identify', email, traits = [], ...names }: ComputationForm) {
  const { space = '', enteredEvent = '', exitedEvent = '', traitEvent = '' } = names;
  const withTraits = traits.join('\n');
  return { changesAs, space, enteredEvent, exitedEvent, traitEvent, withEmail: email === true, withTraits };
}

/** Null where the form is the usual one; within it, null for each part that is. */
function changesOf(draft: DestinationDraft): RecordPatch | null {
  const { changesAs, withEmail } = draft;
  const traits = linesOf(draft.withTraits);
  const nameOf = (text: string) => (changesAs === 'identify' ? null : textOf(text));
  const changes = {
    as: changesAs === 'identify' ? null : changesAs,
    space: textOf(draft.space),
    enteredEvent: nameOf(draft.enteredEvent),
    exitedEvent: nameOf(draft.exitedEvent),
    traitEvent: nameOf(draft.traitEvent),
    email: withEmail ? true : null,
    traits: traits.length === 0 ? null : traits,
  };
  return Object.values(changes).every((value) => value === null) ? null : changes;
}

function textOf(text: string): string | null {
  return text.trim() === '' ? null : text.trim();
}

/** The body that creates the destination. */
export function creationOf(draft: DestinationDraft): RecordPatch {
  const { name, sources } = draft;
  return { name, type: 'webhooks', sources, settings: withoutNulls(settingsOf(draft)) };
}

/**
 * The merge patch with what the form has changed: the rest of the record stays as it is, whoever changes it
 * meanwhile.
 */
export function patchOf(initial: DestinationDraft, draft: DestinationDraft): RecordPatch {
  const before = settingsOf(initial);
  const changed = Object.entries(settingsOf(draft)).filter(([key, value]) => !isSame(value, before[key]));
  return {
    ...(isSame(initial.sources, draft.sources) ? {} : { sources: draft.sources }),
    ...(changed.length === 0 ? {} : { settings: Object.fromEntries(changed) }),
  };
}

/**
 * Whether the draft has a signing secret that was not stored before: it is never shown again once it is
 * saved.
 */
export function hasNewSecret({ sharedSecret, nextSharedSecret, signingSecrets }: DestinationDraft): boolean {
  return [sharedSecret, nextSharedSecret, ...signingSecrets].some(
    (secret) => typeof secret === 'string' && secret !== '',
  );
}

/** Names of headers whose values are credentials, as the server knows them. */
const SECRET_HEADER = /auth|cookie|key|pass|secret|signature|token/i;

/** The draft with what is stored in the place of every secret that was typed. */
export function withoutSecrets(draft: DestinationDraft, base: DestinationDraft): DestinationDraft {
  const { signingSecrets, endpoints } = draft;
  const known = new Set(base.endpoints.map(({ url }) => url));
  const storedOr = (key: 'sharedSecret' | 'nextSharedSecret') =>
    typeof draft[key] === 'string' && draft[key] !== '' ? base[key] : draft[key];
  return {
    ...draft,
    sharedSecret: storedOr('sharedSecret'),
    nextSharedSecret: storedOr('nextSharedSecret'),
    signingSecrets: signingSecrets.filter((secret) => typeof secret !== 'string'),
    endpoints: endpoints.map(({ url, headers }) => ({
      url: known.has(url) ? url : plainAddress(url),
      headers: headers.map(({ name, value }) => {
        const isSecret = typeof value === 'string' && (name.trim() === '' || SECRET_HEADER.test(name));
        return { name, value: isSecret ? '' : value };
      }),
    })),
  };
}

export const DESTINATION_FORM: RecordForm<'destinations', DestinationDraft> = {
  list: 'destinations',
  draftOf,
  patchOf,
  withoutSecrets,
};

export const NEW_DESTINATION_FORM: NewRecordForm<DestinationDraft> = {
  key: 'destinations?new',
  blank: NEW_DESTINATION,
  withoutSecrets,
};

export const DESTINATION_LABELS: FieldLabels<DestinationDraft> = {
  name: 'Name',
  sources: 'Sources',
  endpoints: 'Endpoints',
  sharedSecret: 'Shared secret',
  nextSharedSecret: 'Next shared secret',
  signingSecrets: 'Standard Webhooks secrets',
  publicSignature: 'Public signature',
  format: 'The body has',
  userAgent: 'User agent',
  success: 'A delivery succeeds with',
  types: 'Types',
  events: 'Events',
  consent: 'Consent categories',
  changesAs: 'A change is',
  space: 'Space',
  enteredEvent: 'Event when a user enters',
  exitedEvent: 'Event when a user leaves',
  traitEvent: 'Event of a computed trait',
  withEmail: 'One event for each e-mail address',
  withTraits: 'Traits that go with it',
  answersTo: 'Calls switch it by',
  integrationNames: 'Other names',
  rateLimit: 'Requests a second',
  concurrency: 'Requests at once',
};

/** Null stands for what is to be taken away. */
function settingsOf(draft: DestinationDraft): RecordPatch {
  const { sharedSecret, nextSharedSecret, signingSecrets, publicSignature, format, success } = draft;
  const events = linesOf(draft.events);
  const consent = linesOf(draft.consent);
  const types = draft.types.length === 0 ? null : draft.types;
  const isFiltered = types !== null || events.length > 0;
  return {
    endpoints: draft.endpoints.map(({ url, headers }) => ({
      url: url.trim(),
      headers: Object.fromEntries(
        headers.filter(({ name }) => name.trim() !== '').map(({ name, value }) => [name.trim(), value]),
      ),
    })),
    sharedSecret: sharedSecret === '' ? null : sharedSecret,
    nextSharedSecret: nextSharedSecret === '' ? null : nextSharedSecret,
    signingSecrets: signingSecrets.length === 0 ? null : signingSecrets,
    // False is as good as absent, which is how it is stored where nobody has chosen.
    publicSignature: publicSignature ? true : null,
    format,
    userAgent: textOf(draft.userAgent),
    success,
    filter: isFiltered ? { types, events: events.length === 0 ? null : events } : null,
    integrationNames: draft.answersTo === 'usual' ? null : linesOf(draft.integrationNames),
    consent: consent.length === 0 ? null : consent,
    computations: changesOf(draft),
    rateLimit: numberOf(draft.rateLimit),
    concurrency: numberOf(draft.concurrency),
  };
}

function withoutNulls(settings: RecordPatch): RecordPatch {
  const entries = Object.entries(settings).flatMap(([key, value]): [string, unknown][] => {
    if (value === null) return [];
    const isNested = key === 'filter' || key === 'computations';
    return [[key, isNested ? withoutNulls(value as RecordPatch) : value]];
  });
  return Object.fromEntries(entries);
}

function linesOf(text: string): string[] {
  return text
    .split('\n')
    .map((line) => line.trim())
    .filter((line) => line !== '');
}

const SECRET_BYTES = 24;

/** A secret of the Standard Webhooks scheme from the browser's random source. */
export function newSigningSecret(): string {
  return `whsec_${btoa(String.fromCharCode(...randomBytes(SECRET_BYTES)))}`;
}

/** A shared secret of 32 hexadecimal digits from the browser's random source. */
export function newSharedSecret(): string {
  return [...randomBytes(16)].map((byte) => byte.toString(16).padStart(2, '0')).join('');
}

function randomBytes(count: number): Uint8Array {
  return crypto.getRandomValues(new Uint8Array(count));
}
