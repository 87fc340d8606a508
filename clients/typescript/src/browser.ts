/**
 * The client of Millrace for pages: it knows the visitor and the page, and keeps calls in the storage of the
 * site.
 */
export type { Callback, WhenFull } from './backlog.ts';
export { BrowserClient, type BrowserOptions } from './browser/browser-client.ts';
export type { KeyValueStorage } from './browser/page.ts';
export type {
  AliasCall,
  AnyEvents,
  Fields,
  GroupCall,
  IdentifyCall,
  MaybeWho,
  PageCall,
  ScreenCall,
  Shared,
  TrackCall,
} from './call.ts';
export type { Patience } from './client.ts';
export type { Failure, FailureCode } from './failure.ts';
export type { Clock, Fetch, FetchAnswer, FetchInit, Options, Success } from './options.ts';
export type { Counts } from './reports.ts';
