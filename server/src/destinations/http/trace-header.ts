import { allHeaders, type OutboundRequest } from '../../ports/http-client.ts';

/** Adds the trace context of the event's own request, unless the headers of the endpoint name another. */
export function withTraceparent<Request extends Pick<OutboundRequest, 'fixedHeaders' | 'headers'>>(
  traceparent: string,
  request: Request,
): Request {
  const isTraced = Object.keys(allHeaders(request)).some((name) => name.toLowerCase() === 'traceparent');
  return isTraced ? request : { ...request, headers: { ...request.headers, traceparent } };
}
