// Requests that wait for their turn: few at a time, the most wanted first, dropped when nobody wants them any more.

import { aborted } from "./api";

interface Job {
  rank: number;
  run: (signal: AbortSignal) => Promise<void>;
  control: AbortController | null;
}

export class Queue {
  private jobs = new Map<number, Job>();
  private running = 0;
  private held = false;

  constructor(
    private limit: number,
    private failed: (error: unknown) => void,
  ) {}

  has(key: number): boolean {
    return this.jobs.has(key);
  }

  /** Adds a job, or gives the one with this key a new rank. Lower ranks go first. */
  add(key: number, rank: number, run: Job["run"]): void {
    const job = this.jobs.get(key);
    if (job) job.rank = rank;
    else this.jobs.set(key, { rank, run, control: null });
    this.pump();
  }

  /** Drops every job that is not wanted, also those under way. */
  keep(wanted: (key: number) => boolean): void {
    for (const key of [...this.jobs.keys()]) if (!wanted(key)) this.drop(key);
  }

  drop(key: number): void {
    const job = this.jobs.get(key);
    if (!job) return;
    this.jobs.delete(key);
    job.control?.abort();
  }

  hold(): void {
    this.held = true;
  }

  release(): void {
    this.held = false;
    this.pump();
  }

  private pump(): void {
    while (!this.held && this.running < this.limit) {
      let best: [number, Job] | null = null;
      for (const entry of this.jobs) {
        if (entry[1].control === null && (best === null || entry[1].rank < best[1].rank)) best = entry;
      }
      if (!best) return;
      void this.start(best[0], best[1]);
    }
  }

  private async start(key: number, job: Job): Promise<void> {
    job.control = new AbortController();
    this.running += 1;
    try {
      await job.run(job.control.signal);
    } catch (error) {
      if (!aborted(error)) this.failed(error);
    } finally {
      this.running -= 1;
      if (this.jobs.get(key) === job) this.jobs.delete(key);
      this.pump();
    }
  }
}
