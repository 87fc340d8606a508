import type { AlertChannel } from '../model/alert.ts';

/** The outcome of one message of an alert. */
export interface AlertSending {
  readonly kind: 'taken' | 'failed';
  /** The URL without its secrets, or the server that takes mail. */
  readonly receiver: string;
  /** One sentence: what the receiver answered, or why there is no answer. */
  readonly answer: string;
  /** Of a webhook that answered. */
  readonly status?: number;
  readonly latencyMs: number;
}

/** Whether messages of an alert arrive. Kept in memory. */
export interface AlertHealth {
  readonly alert: string;
  readonly type: AlertChannel['type'];
  /** Troubles that its receivers know of. */
  readonly open: number;
  readonly sent: number;
  readonly failed: number;
  /** Absent before the first. */
  readonly last?: AlertSending & { readonly at: number };
  /** A message waits for its receiver. */
  readonly isWaiting: boolean;
}
