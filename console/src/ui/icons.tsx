import type { ReactNode } from 'react';

/** Marks that are ours: sections of the console and states. Everything else comes from lucide-react. */
const PATHS = {
  logo: (
    <path
      d="M2 7.5h6.5c3.5 0 3.5 5 7 5H22M2 11.5h4.5c3.5 0 3.5 5 7 5H22M2 3.5h8.5c3.5 0 3.5 5 7 5H22"
      strokeWidth="1.9"
    />
  ),
  overview: <path d="M1.5 5h4.6c2.2 0 2.2 6 4.4 6h4M1.5 11h2.8M9.8 5h4.7" />,
  live: <path d="M1.5 8h3l2-4.5 3 9L11.5 8h3" />,
  destinations: <path d="M2 8h7.5M6.5 4.5 10 8l-3.5 3.5M13.5 3v10" />,
  sources: <path d="M2.5 3v10M6 8h7.5M10.5 4.5 14 8l-3.5 3.5" />,
  users: (
    <>
      <circle cx="6" cy="5.5" r="2.5" />
      <path d="M1.8 13.2c.3-2.5 2-3.9 4.2-3.9s3.9 1.4 4.2 3.9M10.6 3.2a2.5 2.5 0 0 1 0 4.6M12 9.7c1.3.5 2.1 1.7 2.3 3.5" />
    </>
  ),
  settings: (
    <>
      <path d="M2 4.5h7M13 4.5h1M2 11.5h1M7 11.5h7" />
      <circle cx="11" cy="4.5" r="1.8" />
      <circle cx="5" cy="11.5" r="1.8" />
    </>
  ),
  ok: (
    <>
      <circle cx="8" cy="8" r="6.2" />
      <path d="m5.2 8.2 2 2 3.6-4.2" />
    </>
  ),
  retry: <path d="M13.5 3.5v3.2h-3.2M13.2 6.5A5.6 5.6 0 1 0 13.6 9" />,
  bad: <path d="M5.3 1.8h5.4l3.5 3.5v5.4l-3.5 3.5H5.3L1.8 10.7V5.3zM5.8 5.8l4.4 4.4M10.2 5.8l-4.4 4.4" />,
  failing: <path d="M5.3 1.8h5.4l3.5 3.5v5.4l-3.5 3.5H5.3L1.8 10.7V5.3zM8 4.6v4M8 11.2v.1" />,
  look: <path d="M8 2.2 14.4 13.4H1.6zM8 6.5v3.3M8 11.6v.1" />,
  info: (
    <>
      <circle cx="8" cy="8" r="6.2" />
      <path d="M8 7.4v3.6M8 4.9v.1" />
    </>
  ),
  skip: (
    <>
      <circle cx="8" cy="8" r="6.2" strokeDasharray="2.2 2.2" />
      <path d="M5.5 8h5" />
    </>
  ),
  pending: (
    <>
      <circle cx="8" cy="8" r="6.2" />
      <path d="M8 4.7V8l2.2 1.6" />
    </>
  ),
  discard: (
    <>
      <circle cx="8" cy="8" r="6.2" />
      <path d="m3.7 12.3 8.6-8.6" />
    </>
  ),
  duplicate: (
    <>
      <rect x="2.5" y="2.5" width="8" height="8" rx="1.5" />
      <path d="M13.5 6v6a1.5 1.5 0 0 1-1.5 1.5H6" />
    </>
  ),
  pause: <path d="M5.5 3.5v9M10.5 3.5v9" />,
  plus: <path d="M8 3v10M3 8h10" />,
  search: (
    <>
      <circle cx="7" cy="7" r="4.5" />
      <path d="m10.5 10.5 3.5 3.5" />
    </>
  ),
  send: <path d="m14 2-5 12-2.5-5.500L1.5 6zM14 2 6.5 8.5" />,
  replay: <path d="M2.5 8a5.5 5.5 0 1 0 1.7-4M2.5 2v2.700h2.7" />,
  events: <path d="M3.5 1.800h6l3 3v9.400h-9zM9.5 1.800v3h3M5.5 8h5M5.5 11h5" />,
  play: <path d="M5 3.2v9.6l7.5-4.8z" />,
} satisfies Record<string, ReactNode>;

export type IconName = keyof typeof PATHS;

/** A decorative mark: the word beside it says the same. */
export function Icon({ name, className = '' }: { readonly name: IconName; readonly className?: string }) {
  return (
    <svg
      viewBox={name === 'logo' ? '0 0 24 20' : '0 0 16 16'}
      className={`i ${className}`}
      aria-hidden="true"
      focusable="false"
    >
      {PATHS[name]}
    </svg>
  );
}
