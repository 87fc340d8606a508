import type { DestinationTypes } from '../ports/destination-type.ts';
import { segment } from './segment/destination.ts';
import { webhooks } from './webhooks/destination.ts';

/** The types of destinations of this program. */
const TYPES = [webhooks, segment];

export const DESTINATION_TYPES: DestinationTypes = new Map(TYPES.map((type) => [type.name, type]));
