/**
 * The client of Millrace for Node and everything else that has `fetch`. Pages have one of their own that
 * knows the visitor: `@millrace/client/browser`.
 */
export type { Backlog, BacklogEvents, Callback, Entry, WhenFull } from './backlog.ts';
export type {
  AliasCall,
  AnyEvents,
  CallType,
  Fields,
  GroupCall,
  IdentifyCall,
  Message,
  PageCall,
  ScreenCall,
  Shared,
  TrackCall,
  Who,
} from './call.ts';
export { Client, type Patience } from './client.ts';
export type { Failure, FailureCode } from './failure.ts';
export type { Clock, Fetch, FetchAnswer, FetchInit, Options, Success } from './options.ts';
export type { Counts } from './reports.ts';
export { VERSION } from './version.ts';
