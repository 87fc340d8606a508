import { segment } from '../../src/destinations/segment/destination.ts';
import { webhooks } from '../../src/destinations/webhooks/destination.ts';
import type { DestinationTypes } from '../../src/ports/destination-type.ts';
import { lines } from './lines/destination.ts';

/** List in place of `destinations/list.ts`, for a program with one more type. */
const TYPES = [webhooks, segment, lines];

export const DESTINATION_TYPES: DestinationTypes = new Map(TYPES.map((type) => [type.name, type]));
