import type { ClockMark } from '../ports/clock.ts';
import type { LogFields, LogLevel } from '../ports/logger.ts';
import type { DoubtfulMerges, Preview } from '../ports/users.ts';
import type { ProfilesPlace, UsersProcessor, UsersProgress, UsersSettings } from './contract.ts';

/** Given to the users thread at its start. */
export interface UsersThreadOptions extends ProfilesPlace {
  /** Identity of the store, which the file of profiles has to match. */
  readonly store: { readonly id: string; readonly keySecret: Uint8Array };
  /** State of the main thread's clocks. */
  readonly clock: ClockMark;
  readonly settings: UsersSettings;
  /** Bytes of memory for SQLite's pages. Absent: the store's own default. */
  readonly cache?: number;
  /** The thread applies nothing and only answers calls: profiles are off, and something must be erased. */
  readonly isPaused?: true;
}

/** The methods that the main thread can call. */
export type UsersCallName =
  | Exclude<keyof UsersProcessor, 'slice' | 'settingsWait' | 'cancelPreview' | 'cancelAll'>
  | 'progress'
  | 'stop';

/** Arguments of each method. */
export type UsersCallArguments<Name extends UsersCallName> = Name extends keyof UsersProcessor
  ? Parameters<UsersProcessor[Name]>
  : [];

/** Result of each method. */
export type UsersCallAnswer<Name extends UsersCallName> = Name extends 'preview'
  ? Preview
  : Name extends 'doubtfulMerges'
    ? DoubtfulMerges
    : Name extends keyof UsersProcessor
      ? Awaited<ReturnType<UsersProcessor[Name]>>
      : Name extends 'progress'
        ? UsersProgress
        : undefined;

/** A call as it crosses to the users thread. `id` tells its reply from the others. */
export type UsersCall = {
  [Name in UsersCallName]: {
    readonly kind: 'call';
    readonly id: number;
    readonly name: Name;
    readonly arguments: UsersCallArguments<Name>;
  };
}[UsersCallName];

/**
 * `wake`: the log has grown. `load`: whether calls and deliveries keep the main thread busy. `cancel`: nobody
 * waits for the answer of the call `id` any more.
 */
export type ToUsersThread =
  | UsersCall
  | { readonly kind: 'wake' }
  | { readonly kind: 'load'; readonly isBusy: boolean }
  | { readonly kind: 'cancel'; readonly id: number };

export type FromUsersThread =
  | { readonly kind: 'done'; readonly id: number; readonly answer: unknown }
  /** `reason` says what an operator can do. */
  | { readonly kind: 'failed'; readonly id: number; readonly reason: string }
  /** Sent after every slice that changed something. */
  | { readonly kind: 'progress'; readonly progress: UsersProgress }
  | { readonly kind: 'log'; readonly level: LogLevel; readonly event: string; readonly facts: LogFields };
