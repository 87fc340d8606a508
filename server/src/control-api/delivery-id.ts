import * as z from 'zod';

/** A delivery by the position of its event and the id of its lane. */
export interface DeliveryId {
  readonly position: number;
  readonly lane: number;
}

/** As `trace` prints it: the event's position and the lane. */
const DELIVERY_ID = /^(\d{1,15})-(\d{1,15})$/;

export const deliveryIdSchema = z
  .string()
  .regex(
    DELIVERY_ID,
    'must be the id of a delivery, as GET /api/v1/deliveries and millrace trace --json give it',
  );

/** Undefined for a text that is no id. */
export function parseDeliveryId(text: string): DeliveryId | undefined {
  const [, position, lane] = DELIVERY_ID.exec(text) ?? [];
  return position === undefined || lane === undefined
    ? undefined
    : { position: Number(position), lane: Number(lane) };
}
