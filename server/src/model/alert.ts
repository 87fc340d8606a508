import type { Endpoint } from './endpoint.ts';
import type { Duration, Monotonic, Time } from './time.ts';

/** Conditions of alerts. docs/operations/alerting.md explains each. */
export const ALERT_CONDITIONS = [
  'destination_failing',
  'deliveries_dying',
  'ledger_unbalanced',
  'disk_filling',
  'profiles_stopped',
] as const;

export type AlertCondition = (typeof ALERT_CONDITIONS)[number];

/**
 * Sends messages to people when something changes for the worse or the better. spec/contract.md, "Operations
 * on alerts".
 */
export type AlertRecord = AlertOptions & AlertChannel;

interface AlertOptions {
  readonly name: string;
  readonly enabled: boolean;
  readonly on: readonly AlertCondition[];
  /** Names of destinations. Absent: all of them. */
  readonly destinations?: readonly string[];
  /** A change that lasts less is not told. */
  readonly after: Duration;
  /** The pause between two messages about a trouble that goes on. */
  readonly remindEvery: Duration;
  /** Kept by the server over restarts, and no part of what operators write. Absent before the first look. */
  readonly memory?: AlertMemory;
}

export type AlertChannel =
  | { readonly type: 'webhook'; readonly settings: AlertWebhook }
  | { readonly type: 'email'; readonly settings: AlertMailbox };

/** A URL that gets messages as signed JSON. */
export interface AlertWebhook extends Endpoint {
  /** Standard Webhooks secrets, as those of a destination. */
  readonly signingSecrets?: readonly string[];
}

/** People who get messages as mail, and the server that takes it. */
export interface AlertMailbox {
  /** `smtp://host:port` or `smtps://host:port`. */
  readonly server: string;
  readonly user?: string;
  readonly password?: string;
  readonly from: string;
  readonly to: readonly string[];
}

/** Messages that the receivers of an alert got, so that a restart repeats none. */
export interface AlertMemory {
  /** Troubles that were told and not yet told to be over. */
  readonly told: readonly ToldTrouble[];
  /**
   * Dead letters of each destination that need no further message: those told, and those from before the
   * alert was made.
   */
  readonly dead: readonly { readonly destination: string; readonly count: number }[];
  /** Destinations whose dead letters were told, with the time of the last message about them. */
  readonly deathsToldAt: readonly { readonly destination: string; readonly at: Monotonic }[];
  readonly lastMessageAt?: Monotonic;
  /**
   * Stored before it is sent, and removed when it was taken: a crash in between repeats it under the same id.
   */
  readonly outgoing?: AlertMessage;
}

/** One thing that is not as it should be. */
export interface TroubleKey {
  readonly condition: AlertCondition;
  /** The destination that it is about, if it is about one. */
  readonly destination?: string;
}

interface ToldTrouble extends TroubleKey {
  readonly since: Time;
  /** The time of the last message about it. */
  readonly toldAt: Monotonic;
}

/** One message with all that has changed since the one before. */
export interface AlertMessage {
  readonly id: string;
  readonly at: Time;
  /** The same moment, for the time after which it is given up. */
  readonly madeAt: Monotonic;
  readonly changes: readonly AlertChange[];
}

export interface AlertChange extends TroubleKey {
  /** `happened` is said of dead letters, which do not end by themselves. */
  readonly change: 'started' | 'continues' | 'ended' | 'happened';
  readonly since: Time;
  /** Of `happened`. */
  readonly count?: number;
  /** One sentence without its full stop. */
  readonly text: string;
  /** Advice: one sentence without its full stop. */
  readonly hint?: string;
}

/** The URL by which the egress rules judge an alert; that of a mail server has the scheme http. */
export function addressOfAlert({ type, settings }: AlertChannel): string {
  return type === 'webhook' ? settings.url : settings.server.replace(/^smtp/, 'http');
}
