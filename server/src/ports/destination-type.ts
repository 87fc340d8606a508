import type * as z from 'zod';
import type { Drop, Outcome } from '../model/delivery.ts';
import type { Destination } from '../model/destination.ts';
import { type HiddenPlaces, hiddenTexts, type ValuePath } from '../model/hidden-values.ts';
import type { Target } from '../model/lane.ts';
import type { SerializedEvent } from '../model/serialized-event.ts';
import type { Source } from '../model/settings.ts';
import type { Duration, Time } from '../model/time.ts';
import type { Clock } from './clock.ts';
import type { HttpClient } from './http-client.ts';
import type { Logger } from './logger.ts';

/**
 * A type of destination: what its settings are, where it sends to, and how. Retries, isolation, dead letters,
 * status, replay and traces belong to others and are the same for all types. `destinations/list.ts` names the
 * types that there are.
 */
export interface DestinationType<Settings = unknown> {
  /** As records name it, such as `webhooks`. It is stored, so it never changes. */
  readonly name: string;
  /**
   * Names by which integrations objects know destinations of this type that are given no others, in the order
   * in which they decide. The first is that of the type itself, such as `Webhooks`: no destination may have
   * it.
   */
  readonly integrationNames: readonly string[];
  readonly settings: SettingsForm<Settings>;
  /** Rules of planning for destinations of this type. */
  readonly planning: {
    /** Whether the integrations object of an event may leave them out. */
    readonly integrations: boolean;
    /** Whether the consent of a visitor may withhold events from them. */
    readonly consent: boolean;
    /** Whether they are told of deleted users. */
    readonly deletes: boolean;
    /**
     * They pass calls on to another service, and get only what clients sent here themselves: neither the
     * events of audiences and computed traits, nor what came from such a service. Absent: they get all.
     */
    readonly isPassingOn?: true;
  };
  /**
   * The taker of owed events: a `worker` sends them, by the `Sender` that `open` gives. With `lease` they
   * wait in the store until somebody comes for it, and nothing is sent.
   */
  readonly taker: 'worker' | 'lease';
  /**
   * Where destinations with these settings send to: one to `MAX_TARGETS`, in the order of their places. Cheap
   * and pure.
   */
  targets(settings: Settings): readonly Target[];
  /**
   * Whether destinations with these settings sign with a key of their own, which the server makes and keeps.
   * Absent: none does.
   */
  signsPublicly?(settings: Settings): boolean;
  /** Opens what sends for all destinations of the type. Present with the taker `worker`. */
  open?(tools: SenderTools): Sender;
}

/** The types that a program has, by their names. */
// biome-ignore lint/suspicious/noExplicitAny: settings were checked by the schema of their own type before any type sees them
export type DestinationTypes = ReadonlyMap<string, DestinationType<any>>;

/** The targets of a destination; none where its type is not known. */
export function targetsOf(
  { type, settings }: Pick<Destination, 'type' | 'settings'>,
  types: DestinationTypes,
): readonly Target[] {
  return types.get(type)?.targets(settings) ?? [];
}

/**
 * Names by which an integrations object may know a destination beside its own and `All`, in the order in
 * which they decide; undefined where it is not asked by one. The own names of other destinations are theirs
 * alone, which the caller sees to.
 */
export function integrationNamesOf(
  { type, integrationNames }: Pick<Destination, 'type' | 'integrationNames'>,
  types: DestinationTypes,
): readonly string[] | undefined {
  const known = types.get(type);
  return known?.planning.integrations === true ? (integrationNames ?? known.integrationNames) : undefined;
}

/** The categories that a destination asks for; undefined where no consent withholds anything from it. */
export function categoriesOf(
  { type, consent }: Pick<Destination, 'type' | 'consent'>,
  types: DestinationTypes,
): readonly string[] | undefined {
  return types.get(type)?.planning.consent === true ? consent : undefined;
}

/** The URLs in the settings of a destination, for the egress rules to judge. */
export function addressesOf(
  { type, settings }: Pick<Destination, 'type' | 'settings'>,
  types: DestinationTypes,
): { readonly path: ValuePath; readonly url: string }[] {
  const hidden = types.get(type)?.settings.hidden;
  if (hidden === undefined) return [];
  const found = hiddenTexts(settings, { addresses: hidden.addresses, secrets: [] });
  return found.map(({ path, text }) => ({ path, url: text }));
}

/**
 * The settings that operators write as `destinations[].settings`, for files, the control API, its
 * description, and forms.
 */
export interface SettingsForm<Settings> {
  /**
   * Checks settings, fills in their defaults and describes them: `description` and `title` of a key are what
   * documents and forms show. A strict object without the keys of a policy, which every destination has
   * beside these.
   */
  readonly schema: z.ZodObject & z.ZodType<Settings>;
  readonly hidden: HiddenPlaces;
  /**
   * Settings as the control API shows them, with the schema of a mask where a secret stands. Absent: they are
   * not described.
   */
  shown?(mask: z.ZodType): z.ZodObject;
  /** A part that is too long to be checked entry by entry. Asked before the schema. */
  oversized?(written: unknown): SettingsRemark | undefined;
  /**
   * Warnings about settings that are allowed and unwise. `stored`: the settings as they are, about which
   * nothing is said again.
   */
  warnings?(settings: Settings, stored: Settings | undefined): readonly SettingsRemark[];
}

export interface SettingsRemark {
  /** Below the settings: `['endpoints', 0, 'url']`. */
  readonly path: ValuePath;
  readonly message: string;
}

/** The parts of the program that senders may use. */
export interface SenderTools {
  readonly http: HttpClient;
  readonly clock: Pick<Clock, 'now' | 'monotonic'>;
  readonly logger: Logger;
  /** The source with an id, also one that was removed. */
  readonly sourceOf: (id: number) => Source | undefined;
}

/**
 * Sends events to the targets of destinations of one type. It never retries: it tells what became of each
 * event, and whoever asked decides.
 */
export interface Sender {
  /** How many events one send may have at most. */
  most(destination: Destination): BatchLimits;

  /**
   * Sends the events of a batch to each of its targets, to all at once. Calls `done` exactly once for each
   * target, never before `send` returns, with one outcome for each event in the order of the batch. A target
   * that hangs must not delay what is said of the others. Never throws: every failure is an outcome.
   */
  send(batch: OutboundBatch, done: (target: Target, outcomes: readonly DeliveryOutcome[]) => void): void;

  /**
   * The requests that `send` would make of this batch, byte for byte, one for each target. Absent where there
   * is nothing to show.
   */
  preview?(batch: OutboundBatch): readonly PreviewedRequest[];

  /** Ends sending. Resolves when `done` was called for every request under way. Idempotent. */
  stop(): Promise<void>;
}

export interface BatchLimits {
  /** 1 where every event is sent by itself. */
  readonly events: number;
  /** Bytes of their stored lines together. One event is always sent, however large it is. */
  readonly bytes: number;
}

/** Events that are sent together. */
export interface OutboundBatch {
  /** As its settings were when the batch was made. A lane of it has another id (`destinationOfLane`). */
  readonly destination: Destination;
  readonly targets: readonly Target[];
  readonly events: readonly BatchedEvent[];
  /** Time of this attempt. */
  readonly now: Time;
}

export interface BatchedEvent {
  readonly serialized: SerializedEvent;
  /** Id of its source. Absent: none has sent it, as the event of a test. */
  readonly source?: number | undefined;
  /** The id of the replay that delivers the event again. */
  readonly replay?: string | undefined;
  /** The trace context of the call that brought the event. */
  readonly traceparent?: string | undefined;
}

/** The outcome of one event at one target. */
export interface DeliveryOutcome {
  /**
   * A drop is no request: neither the health of the target nor its history hears of it. Where another target
   * takes the event, it is delivered.
   */
  readonly outcome: Outcome | Drop;
  /** The answer of the target to a failure, 4 KB at most and without secrets; empty where there is none. */
  readonly answer: string;
  /** How long the target took. */
  readonly latencyMs: Duration;
}

/** The outcome of an event that the target was asked for. */
export interface AnsweredOutcome extends DeliveryOutcome {
  readonly outcome: Outcome;
}

/** A request as it is shown, with its secrets: whoever shows it masks them. */
export interface PreviewedRequest {
  readonly target: Target;
  readonly url: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: Buffer;
}
