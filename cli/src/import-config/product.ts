/**
 * The part of this product that the import depends on. What it cannot do yet is said in the report with
 * `WITH_SHAPING`; a new ability is switched on here.
 */
export const PRODUCT = {
  /** The format whose body is the whole event, as the classic webhooks of Segment have it. */
  wholeEvent: { segment: 'segment', rudderstack: 'canonical' },
  /** URLs of a destination, and headers of a URL. */
  maxEndpoints: 5,
  maxHeaders: 5,
  /** Sources and destinations in one file; audiences and computed traits of a server. */
  maxRecords: 1000,
  maxComputations: 500,
  /** Users in one request for a regulation. */
  maxSubjects: 5000,
  /** Names that no source, and no destination, may have. */
  sourceNames: ['audiences'],
  destinationNames: ['All', 'all', 'Webhooks'],
} as const;

/** The beginning of the reason of everything that filters, mappings and functions would be needed for. */
export const WITH_SHAPING = 'with shaping';
