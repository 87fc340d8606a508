import * as z from 'zod';
import { maskUrl, type SecretMask } from '../model/secrets.ts';
import { allHeaders, type OutboundRequest } from '../ports/http-client.ts';
import { maskSchema } from './records.ts';

/** A request to an endpoint as it is shown. */
export const requestSchema = z.object({
  method: z.literal('POST'),
  url: z.string(),
  headers: z.record(z.string(), z.union([z.string(), maskSchema])),
  body: z.string(),
});

export type RequestView = z.output<typeof requestSchema>;

/**
 * A request without its secrets. The body is text, because the signature is over its exact bytes. `configured` has the masked headers of
 * the endpoint, which replace the secrets here; those in the URL are masked as well.
 */
export function requestView(
  request: Pick<OutboundRequest, 'url' | 'fixedHeaders' | 'headers' | 'body'>,
  configured: Readonly<Record<string, string | SecretMask>>,
): RequestView {
  const masks = Object.entries(configured).filter(([, value]) => typeof value !== 'string');
  return {
    method: 'POST',
    url: maskUrl(request.url),
    headers: { ...allHeaders(request), ...Object.fromEntries(masks) },
    body: request.body.toString(),
  };
}
