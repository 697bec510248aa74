/* Search without a server. Browsers start no worker from file://. There, the script of a worker runs in a hidden frame,
 * and messages are passed on as events. Over HTTP nothing changes. */
"use strict";

class IFrameWorker extends EventTarget {
  constructor(url) {
    super();
    this.frame = document.createElement("iframe");
    this.frame.hidden = true;
    document.body.appendChild(this.frame);
    this.room = this.frame.contentWindow;
    this.room.document.open();
    this.room.document.write("<!doctype html><title>worker</title><body></body>");
    this.room.document.close();
    this.room.postMessage = (data) => this.dispatchEvent(new MessageEvent("message", { data }));
    this.room.importScripts = (...urls) =>
      urls.reduce((before, one) => before.then(() => this.load(one)), Promise.resolve());
    this.ready = this.load(url);
  }

  load(url) {
    return new Promise((resolve, reject) => {
      const script = this.room.document.createElement("script");
      script.onload = resolve;
      script.onerror = reject;
      script.src = url;
      this.room.document.body.appendChild(script);
    });
  }

  postMessage(data) {
    this.ready.then(() => this.room.dispatchEvent(new this.room.MessageEvent("message", { data })));
  }

  terminate() {
    this.frame.remove();
  }
}

/* The worker's script looks for this name. */
window.IFrameWorker = IFrameWorker;
if (window.location.protocol === "file:") window.Worker = IFrameWorker;
